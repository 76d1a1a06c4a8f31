"""Whether the kernel killed a process of ours because memory ran out: counted by the cgroup (Linux)."""

from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


def oom_kills() -> int:
    """How many processes of this process's cgroup were killed so, ever; 0 where that is not told."""
    for file in _counters():
        try:
            for line in file.read_text("ascii").splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
        except (OSError, ValueError):
            continue
    return 0


def _counters() -> list[Path]:
    try:
        lines = _MEMBERSHIP.read_text("utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            found += [_ROOT / path.lstrip("/") / "memory.events", _ROOT / "memory.events"]
        elif "memory" in controllers.split(","):
            memory = _ROOT / "memory"
            found += [memory / path.lstrip("/") / "memory.oom_control", memory / "memory.oom_control"]
    return found
