"""The lines that peers say to one another."""

from typing import Final

LONGEST_LINE_BYTES: Final = 256
NUDGE: Final = b"nudge\n"
_GREETING: Final = "tickwheel-peer 1 "


def greeting(process: str) -> bytes:
    """What a listener says first."""
    return f"{_GREETING}{process}\n".encode()


def parse_greeting(line: bytes) -> str | None:
    """The process that a greeting names; None for anything else."""
    if len(line) > LONGEST_LINE_BYTES or not line.endswith(b"\n"):
        return None
    try:
        text = line[:-1].decode("ascii")
    except UnicodeDecodeError:
        return None
    process = text.removeprefix(_GREETING)
    return process if process and process != text and process.isprintable() and " " not in process else None
