"""Which file system a path is on."""

from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The type of the mount that holds the path, such as `ext4`; "" where that can't be known (macOS)."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    wanted = path.resolve()
    best, kind = -1, ""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        # A later mount on the same point lies over an earlier one.
        if wanted.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _unescaped(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
