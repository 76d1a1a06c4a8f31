"""Settings of notifications are refused with the remedy, and the mail password is shown nowhere."""

from typing import Any

import pytest

from tickwheel.config import load_settings
from tickwheel.domain.errors import ConfigError

MAIL = {"smtp_url": "smtp://u:planted@mail.example.com", "smtp_from": "jobs@example.com"}


@pytest.mark.parametrize(
    ("given", "field", "word"),
    [
        ({"smtp_url": MAIL["smtp_url"]}, "smtp_from", "needs an address"),
        ({"smtp_from": "jobs@example.com"}, "smtp_url", "sends nothing"),
        (MAIL | {"smtp_from": "Jobs <jobs@example.com>"}, "--smtp-from", "no plain e-mail address"),
        (MAIL | {"smtp_from": "a@b.example\r\nBcc: c@d.example"}, "--smtp-from", "no plain"),
        (MAIL | {"smtp_url": "https://u:planted@mail.example.com"}, "--smtp-url", "must look like smtp://"),
        (MAIL | {"smtp_domains": ("@example.com",)}, "--smtp-domains", "no domain such as example.com"),
        ({"public_url": "jobs.example.com"}, "--public-url", "must look like https://"),
        ({"public_url": "https://u:planted@jobs.example.com"}, "--public-url", "without a user"),
        ({"public_url": "https://jobs.example.com/#/x"}, "--public-url", "fragment"),
        ({"public_url": "https://jobs.example.com/\n"}, "--public-url", "must look like"),
    ],
)
def test_wrong_settings_are_refused_with_name_and_remedy(given: dict[str, Any], field: str, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(flags=given, environ={})
    [problem] = refused.value.problems
    assert problem.field == field
    assert word in problem.message
    assert "planted" not in str(refused.value)


def test_settings_that_go_together_are_taken() -> None:
    settings = load_settings(flags=MAIL | {"public_url": "https://jobs.example.com/tickwheel"}, environ={})
    assert settings.smtp_domains == ()
    assert "planted" not in repr(settings)
    assert "mail.example.com" in repr(settings)
