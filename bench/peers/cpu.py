"""CPU time of a process and everything below it, from /proc."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)


class Process(NamedTuple):
    """`ticks`: its own, and those of its ended children that it has waited for."""

    parent: int
    ticks: int


def parse_stat(text: str) -> Process:
    """From the text of /proc/PID/stat; the name in it may hold blanks and brackets."""
    fields = text.rpartition(")")[2].split()
    return Process(int(fields[_PARENT]), sum(map(int, fields[_TIMES])))


def processes() -> dict[int, Process]:
    """All that run, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = parse_stat((entry / "stat").read_text())
            except OSError:  # it has just ended
                continue
    return found


def tree_ticks(root: int, among: dict[int, Process]) -> int:
    """Of `root` and all its descendants."""
    children = defaultdict(list)
    for pid, process in among.items():
        children[process.parent].append(pid)
    waiting, ticks = [root], 0
    while waiting:
        pid = waiting.pop()
        if pid in among:
            ticks += among[pid].ticks
        waiting += children[pid]
    return ticks


def trees_cpu_s(*roots: int) -> float:
    """Seconds that these trees of processes have used so far; no root may be below another."""
    among = processes()
    return sum(tree_ticks(root, among) for root in roots) / _TICKS_PER_S
