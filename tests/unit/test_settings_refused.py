"""Wrong settings are told in few words, and secrets not at all."""

from pathlib import Path
from typing import Any

import pytest

from tickwheel.config import load_settings
from tickwheel.domain.errors import ConfigError


def told(config: str, tmp_path: Path, **flags: Any) -> str:
    path = tmp_path / "tickwheel.toml"
    path.write_text(config)
    with pytest.raises(ConfigError) as caught:
        load_settings(flags=flags, environ={}, config_file=path)
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        'store = { a = "s3cret" }',
        "store = 0x73337265",
        'token = [["s3cret"]]',
        'token = { a = "s3cret" }',
        'secrets_key = { a = "s3cret" }',
        'jwt_secret = ["s3cret"]',
        'egress_proxy = { eu = "http://u:s3cret@h" }',
    ],
)
def test_a_secret_of_the_wrong_type_is_not_told(config: str, tmp_path: Path) -> None:
    message = told(config, tmp_path)
    assert "must be a text" in message
    assert "s3cret" not in message
    assert str(0x73337265) not in message


@pytest.mark.parametrize(
    "config",
    [
        f"port = {'9' * 5_000}",
        f"port = {'[' * 2_000}",
        f"port = [{'1,' * 5_000}]",
        f"auto_migrate = [{'1,' * 5_000}]",
        f"log_level = [{'1,' * 5_000}]",
    ],
    ids=["digits", "brackets", "list for a number", "list for a switch", "list for a text"],
)
def test_a_long_value_is_cut_short(config: str, tmp_path: Path) -> None:
    assert len(told(config, tmp_path)) < 1_000


def test_a_long_flag_is_cut_short(tmp_path: Path) -> None:
    assert len(told("", tmp_path, port="9" * 5_000)) < 1_000
