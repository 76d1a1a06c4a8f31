"""Settings of the keys that seal stored secrets."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tickwheel.config import Settings, load_settings
from tickwheel.domain.errors import ConfigError

ONE = "one:" + base64.b64encode(bytes(range(32))).decode()
OTHER = "other:" + base64.b64encode(bytes(range(1, 33))).decode()


def loaded(environ: dict[str, str] | None = None, config_file: Path | None = None, **flags: Any) -> Settings:
    return load_settings(flags=flags, environ=environ or {}, config_file=config_file)


def refused(environ: dict[str, str] | None = None, config_file: Path | None = None, **flags: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(environ, config_file, **flags)
    return str(caught.value)


def test_keys_come_from_flags_the_environment_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tickwheel.toml"
    path.write_text(f'secrets_key = ["{ONE}", "{OTHER}"]')
    assert loaded(config_file=path).secrets_key == (ONE, OTHER)
    assert loaded({"TICKWHEEL_SECRETS_KEY": f"{OTHER},{ONE}"}, path).secrets_key == (OTHER, ONE)
    assert loaded({"TICKWHEEL_SECRETS_KEY": OTHER}, path, secrets_key=(ONE,)).secrets_key == (ONE,)


@pytest.mark.parametrize("key", [ONE[:-8], "a b:" + ONE[4:], "one:not base64", f"{ONE} {ONE}"])
def test_what_is_no_key_is_refused_under_its_name_and_not_quoted(key: str) -> None:
    message = refused({"TICKWHEEL_SECRETS_KEY": key})
    assert message.startswith("TICKWHEEL_SECRETS_KEY: ")
    assert ONE[4:12] not in message
    assert "not base64" not in message


def test_two_keys_under_one_id_are_refused() -> None:
    assert "two different keys" in refused(secrets_key=(ONE, "one" + OTHER[5:]))
    assert loaded(secrets_key=(ONE, ONE)).secrets_key == (ONE, ONE)


def test_nothing_shows_keys_or_the_command_that_brings_them() -> None:
    settings = loaded(secrets_key=(ONE,), secrets_key_command="kms decrypt --token t0ken", secrets_key_file="k")
    assert ONE[4:12] not in repr(settings)
    assert "t0ken" not in repr(settings)
    assert "secrets_key_file='k'" in repr(settings)
