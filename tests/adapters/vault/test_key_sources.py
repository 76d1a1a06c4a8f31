"""Keys from files and commands: read strictly, and never shown."""

import base64
import os
import shlex
import stat
import sys
import time
from pathlib import Path

import pytest

from tickwheel.adapters.vault.key_sources import (
    KEY_FILE_NAME,
    KeysUnreadable,
    keys_in_file,
    keys_of_command,
    keys_of_folder,
    new_key,
)
from tickwheel.config.secret_keys import SecretKey, key_line, parse_secret_key, without_repetitions

KEY = bytes(range(32))
ENCODED = base64.b64encode(KEY).decode()


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_key_is_written_with_an_id_or_alone() -> None:
    assert parse_secret_key(f"2026-10:{ENCODED}") == SecretKey("2026-10", KEY)
    alone = parse_secret_key(ENCODED)
    assert alone.key == KEY
    assert alone.id == parse_secret_key(base64.urlsafe_b64encode(KEY).decode()).id
    assert alone.id != parse_secret_key(base64.b64encode(KEY[::-1]).decode()).id
    assert parse_secret_key(key_line(alone)) == alone


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a:",
        f"a b:{ENCODED}",
        f":{ENCODED}",
        f"a:{ENCODED[:-4]}",
        f"a:{ENCODED}AAAA",
        f"a:{ENCODED[:-1]}%",
        "é:AAAA",
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_secret_key(text)
    assert ENCODED[:8] not in str(caught.value)


def test_two_keys_under_one_id_are_refused_and_one_twice_is_one() -> None:
    one, other = SecretKey("a", KEY), SecretKey("a", KEY[::-1])
    assert without_repetitions([one, SecretKey("b", KEY), one]) == [one, SecretKey("b", KEY)]
    with pytest.raises(ValueError, match="'a'"):
        without_repetitions([one, other])


def test_a_file_holds_a_key_a_line_and_comments(tmp_path: Path) -> None:
    path = written(tmp_path, f"# the newest first\n\nb:{ENCODED}\n  a:{ENCODED}\n")
    assert [key.id for key in keys_in_file(path)] == ["b", "a"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeysUnreadable, match=f"mode {mode:04o}.*chmod 600"):
        keys_in_file(written(tmp_path, f"a:{ENCODED}", mode))


@pytest.mark.parametrize("text", ["", "# nothing\n", f"a:{ENCODED}\nb:broken{ENCODED}\n", "\xff", "a" * 70_000])
def test_a_file_without_keys_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeysUnreadable) as caught:
        keys_in_file(written(tmp_path, text))
    assert ENCODED[:8] not in str(caught.value)
    assert "keys" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeysUnreadable, match=r"gone: No such file"):
        keys_in_file(tmp_path / "gone")


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] not in "ZX"


def python(program: str) -> str:
    return shlex.join([sys.executable, "-c", program])


def test_a_command_prints_keys(tmp_path: Path) -> None:
    path = written(tmp_path, f"b:{ENCODED}\na:{ENCODED}\n")
    assert [key.id for key in keys_of_command(f"cat {shlex.quote(str(path))}")] == ["b", "a"]


def test_a_command_runs_without_a_shell() -> None:
    with pytest.raises(KeysUnreadable):
        keys_of_command(f"echo a:{ENCODED} | cat")
    assert keys_of_command(f"echo 'a:{ENCODED}'") == [SecretKey("a", KEY)]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "empty"),
        ("'", "can't be read"),
        ("/no/such/program", "can't be run: No such file"),
        (python(f"print('a:{ENCODED}'); raise SystemExit(3)"), "exited with 3"),
        (python(f"import sys; print('a:{ENCODED}', file=sys.stderr)"), "holds no key"),
        (python(f"print('not a key {ENCODED}')"), "line 1"),
        (python("import os; os.kill(os.getpid(), 9)"), "was killed"),
    ],
)
def test_a_command_that_fails_is_told_without_its_output(
    command: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeysUnreadable, match=said) as caught:
        keys_of_command(command)
    assert ENCODED[:8] not in str(caught.value) + "".join(capfd.readouterr())


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = "import time; time.sleep(600)"
    program = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    with pytest.raises(KeysUnreadable, match="no answer within 2 s"):
        keys_of_command(python(program), limit_seconds=2)
    until = time.monotonic() + 20
    while note.exists() and lives(int(note.read_text())):
        assert time.monotonic() < until, "what the command started is still there"
        time.sleep(0.01)


def test_a_folder_gets_a_key_once(tmp_path: Path) -> None:
    assert keys_of_folder(tmp_path, make=False) == []
    made = keys_of_folder(tmp_path, make=True)
    path = tmp_path / KEY_FILE_NAME
    assert [stat.S_IMODE(path.stat().st_mode), os.listdir(tmp_path)] == [0o600, [KEY_FILE_NAME]]
    assert keys_of_folder(tmp_path, make=True) == made == keys_of_folder(tmp_path, make=False)
    assert len(made) == 1


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeysUnreadable, match=r"secrets\.key can't be written"):
        keys_of_folder(tmp_path / "none", make=True)


def test_new_keys_differ() -> None:
    keys = {new_key().key for _ in range(10)} | {new_key("a").key}
    assert len(keys) == 11
