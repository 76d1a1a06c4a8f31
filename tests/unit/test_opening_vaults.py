"""Which keys a node has, by its settings and its store."""

import base64
from pathlib import Path

import pytest

from tickwheel.adapters.vault.key_sources import KEY_FILE_NAME
from tickwheel.config import Settings
from tickwheel.config.secret_keys import parse_secret_key
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.sealed import key_id_of
from tickwheel.wiring.vault import find_vault, make_key_line, open_vault

ONE = "one:" + base64.b64encode(bytes(range(32))).decode()
TWO = "two:" + base64.b64encode(bytes(range(1, 33))).decode()
SHARED = "postgresql://localhost/jobs"


def test_an_embedded_store_makes_its_own_key_once_in_its_folder(tmp_path: Path) -> None:
    for settings in (
        Settings(data=str(tmp_path / "a")),
        Settings(store=f"sqlite:///{tmp_path}/b", data="elsewhere"),
    ):
        folder = tmp_path / ("a" if not settings.store else "b")
        folder.mkdir()
        assert not find_vault(settings).seals
        assert not (folder / KEY_FILE_NAME).exists()
        made = open_vault(settings)
        assert (made.seals, (folder / KEY_FILE_NAME).exists()) == (True, True)
        sealed = made.seal("text", "context")
        assert open_vault(settings).open(sealed, "context") == "text"
        assert find_vault(settings).open(sealed, "context") == "text"


def test_keys_that_are_set_later_seal_and_the_own_one_still_opens(tmp_path: Path) -> None:
    sealed = open_vault(Settings(data=str(tmp_path))).seal("text", "context")
    later = open_vault(Settings(data=str(tmp_path), secrets_key=(ONE,)))
    assert key_id_of(later.seal("text", "context")) == "one"
    assert later.open(sealed, "context") == "text"


def test_a_key_that_is_set_leaves_no_file(tmp_path: Path) -> None:
    open_vault(Settings(data=str(tmp_path), secrets_key=(ONE,)))
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_has_a_key_of_its_own_per_process() -> None:
    settings = Settings(store="memory:")
    one, other = open_vault(settings), open_vault(settings)
    assert one.seal("text", "context") != other.seal("text", "context")


def test_a_shared_store_has_the_keys_of_its_settings_or_none(tmp_path: Path) -> None:
    assert not open_vault(Settings(store=SHARED)).seals
    file = tmp_path / "keys"
    file.write_text(ONE)
    file.chmod(0o600)
    by_file = Settings(store=SHARED, secrets_key_file=str(file))
    by_command = Settings(store=SHARED, secrets_key_command=f"cat {file}")
    assert [open_vault(one).key_ids for one in (by_file, by_command)] == [("one",)] * 2
    both = Settings(
        store=SHARED, secrets_key=(TWO,), secrets_key_file=str(file), secrets_key_command=f"cat {file}"
    )
    assert open_vault(both).key_ids == ("two", "one")


@pytest.mark.parametrize("setting", ["secrets_key_file", "secrets_key_command", "data"])
def test_what_can_not_be_read_is_told_under_its_name(tmp_path: Path, setting: str) -> None:
    broken = tmp_path / (KEY_FILE_NAME if setting == "data" else "keys")
    broken.write_text(ONE[:-4])
    broken.chmod(0o600)
    settings = {
        "secrets_key_file": Settings(store=SHARED, secrets_key_file=str(broken)),
        "secrets_key_command": Settings(store=SHARED, secrets_key_command="false"),
        "data": Settings(data=str(tmp_path)),
    }[setting]
    with pytest.raises(ConfigError) as caught:
        open_vault(settings)
    assert [problem.field for problem in caught.value.problems] == [setting]
    assert ONE[4:12] not in str(caught.value)


def test_two_sources_that_disagree_about_an_id_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one" + TWO[3:])
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="secrets_key: two different keys have the id 'one'"):
        open_vault(Settings(store=SHARED, secrets_key=(ONE,), secrets_key_file=str(file)))


def test_a_new_key_line_is_one() -> None:
    assert parse_secret_key(make_key_line("2026")).id == "2026"
    assert make_key_line() != make_key_line()
