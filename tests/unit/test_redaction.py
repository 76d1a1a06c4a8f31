"""Passwords in addresses are never shown."""

import pytest

from tickwheel.config import Settings
from tickwheel.domain.redaction import redacted, without_passwords


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:s3cret@db:5432/jobs", "postgresql://app:***@db:5432/jobs"),
        ("postgresql://app@db/jobs", "postgresql://app@db/jobs"),
        ("postgresql:///jobs", "postgresql:///jobs"),
        ("postgresql://a:p@ss/w@rd@db/jobs", "postgresql://a:***@db/jobs"),
        ("postgresql://a:p@h1:1,h2:2/jobs?target_session_attrs=any", None),
        ("postgresql://db/jobs?user=a&password=s3cret&sslmode=require", None),
        ("etcds://u:s3cret@h1:1,h2:2", "etcds://u:***@h1:1,h2:2"),
        ("postgresql://u:p?s3cret@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:12?s3cret@h", "postgresql://u:***@h"),
        ("postgresql://u:p@ss?s3cret@h", "postgresql://u:***@h"),
        ("postgresql://h:5432/jobs?user=a@b&password=s3cret", "postgresql://h:5432/jobs?user=a@b&password=***"),
        ("sqlite:data", "sqlite:data"),
        ("", ""),
    ],
)
def test_shown_addresses_hold_no_password(url: str, shown: str | None) -> None:
    answer = redacted(url)
    assert "s3cret" not in answer
    assert ":p@" not in answer
    if shown is not None:
        assert answer == shown


def test_the_rest_of_the_query_stays() -> None:
    assert redacted("postgresql://db/x?sslpassword=a&sslkey=/k&connect_timeout=2") == (
        "postgresql://db/x?sslpassword=***&sslkey=/k&connect_timeout=2"
    )


def test_messages_of_others_are_cleaned_too() -> None:
    url = "postgresql://app:s3%40cret@db/jobs"
    assert without_passwords('tried "s3@cret" and s3%40cret', url) == 'tried "***" and ***'
    assert without_passwords("nothing in here", "sqlite:data") == "nothing in here"


def test_settings_are_printed_without_passwords() -> None:
    settings = Settings(
        store="postgresql://a:s3cret@db/x", coordinator="etcd://u:s3cret@h:1", token=("s3cret" * 4,)
    )
    assert "s3cret" not in repr(settings)
    assert "postgresql://a:***@db/x" in repr(settings)
