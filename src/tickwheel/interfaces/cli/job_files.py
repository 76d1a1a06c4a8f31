"""Jobs from files: one JSON object, or one a line. Values stay byte for byte as they are."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest

STDIN: Final = Path("-")
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_object(path: Path) -> dict[str, Any]:
    """The members of the JSON object in a file; `-` is standard input. Raises `InvalidRequest`."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return _members(data)
    except OSError as error:
        raise _wrong(path, str(error.strerror)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong(path, f"is not a JSON object: {error}") from error


def open_lines(path: Path) -> IO[bytes]:
    """A file to read line by line; `-` is standard input. Raises `InvalidRequest`."""
    try:
        return sys.stdin.buffer if path == STDIN else path.open("rb")
    except OSError as error:
        raise _wrong(path, str(error.strerror)) from error


def numbered_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of the lines that hold something."""
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, line


def _wrong(path: Path, message: str) -> InvalidRequest:
    return InvalidRequest([FieldProblem(str(path), message)])
