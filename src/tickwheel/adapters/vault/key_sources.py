"""Where keys come from beside the settings: a file, a command that asks a key service, or made once in a folder.

All of it blocks. A file that others may read is refused, by the rule of ssh: if it is ours, nobody else may read
it; if it is somebody else's (a mounted secret), at least not everybody. What a command prints is never shown.
"""

import os
import secrets
import shlex
import signal
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickwheel.config.secret_keys import KEY_BYTES, SecretKey, key_line, parse_secret_keys

COMMAND_SECONDS: Final = 10
KEY_FILE_NAME: Final = "secrets.key"
_LIMIT_BYTES: Final = 65_536
_HEADER: Final = (
    "# Opens the secrets in the database of this folder: without it they are lost.\n"
    "# Keep a copy of it apart from the backups of the database. `tickwheel secrets --help` says more.\n"
)


class KeysUnreadable(Exception):
    """The text says what is wrong and quotes no key."""


def keys_in_file(path: Path) -> list[SecretKey]:
    """The keys of a file. Raises `KeysUnreadable`."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise KeysUnreadable(f"{path}: {error.strerror or error}") from None
    ours = found.st_uid == os.geteuid()
    others = stat.S_IRWXG | stat.S_IRWXO if ours else stat.S_IRWXO
    if stat.S_ISREG(found.st_mode) and found.st_mode & others:
        mode = stat.S_IMODE(found.st_mode)
        raise KeysUnreadable(
            f"{path} can be read by others (mode {mode:04o}); run: chmod 600 {shlex.quote(str(path))}"
        )
    return _keys_of(data, str(path))


def keys_of_command(command: str, *, limit_seconds: float = COMMAND_SECONDS) -> list[SecretKey]:
    """The keys that a command prints, one a line; it runs without a shell. Raises `KeysUnreadable`."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise KeysUnreadable(f"the command can't be read: {error}") from None
    if not words:
        raise KeysUnreadable("the command is empty")
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise KeysUnreadable(f"{words[0]!r} can't be run: {getattr(error, 'strerror', None) or error}") from None
    try:
        printed, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        raise KeysUnreadable(f"{words[0]!r} gave no answer within {limit_seconds:g} s") from None
    finally:
        _end(process)
    if process.returncode:
        what = f"exited with {process.returncode}" if process.returncode > 0 else "was killed"
        raise KeysUnreadable(f"{words[0]!r} {what}; its output is not shown, run it by hand to see why")
    return _keys_of(printed, f"the output of {words[0]!r}")


def keys_of_folder(folder: Path, *, make: bool) -> list[SecretKey]:
    """The keys of the folder's own file; with `make`, a file with a new key if there is none.

    Raises `KeysUnreadable`.
    """
    path = folder / KEY_FILE_NAME
    if make and not path.exists():
        try:
            _make(path)
        except OSError as error:
            raise KeysUnreadable(f"{path} can't be written: {error.strerror or error}") from None
    return keys_in_file(path) if path.exists() else []


def new_key(key_id: str = "") -> SecretKey:
    """A random key, under an id of its own unless one is given."""
    return SecretKey(key_id or f"k{secrets.token_hex(4)}", secrets.token_bytes(KEY_BYTES))


def _make(path: Path) -> None:
    """Appears whole or not at all, and is never overwritten: a link fails where somebody was faster."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"{_HEADER}{key_line(new_key())}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keys_of(data: bytes, where: str) -> list[SecretKey]:
    if len(data) > _LIMIT_BYTES:
        raise KeysUnreadable(f"{where} is longer than {_LIMIT_BYTES:,} bytes")
    try:
        keys = parse_secret_keys(data.decode("ascii").splitlines())
    except UnicodeDecodeError:
        raise KeysUnreadable(f"{where} is no text: one key a line is expected, as `ID:BASE64`") from None
    except ValueError as error:
        raise KeysUnreadable(f"{where}, {error}") from None
    if not keys:
        raise KeysUnreadable(f"{where} holds no key: one a line is expected, as `ID:BASE64`")
    return keys


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The command, and what it started and left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
