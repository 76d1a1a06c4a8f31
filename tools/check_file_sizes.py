"""Fails when a file has grown too long.

Limits are per folder (`file-sizes.toml` beside this file). A file that is over its limit may be listed there
with its present length; such a number only ever falls, which is what makes the list a ratchet.
"""

import statistics
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tracked_files import read_text, tracked_files


def count_lines(root: Path) -> dict[str, int]:
    """Length in lines of each text file under `root`, by its path."""
    texts = {path.as_posix(): read_text(root / path) for path in tracked_files(root)}
    return {name: len(text.splitlines()) for name, text in texts.items() if text is not None}


def find_problems(sizes: Mapping[str, int], limits: Mapping[str, int], ratchet: Mapping[str, int]) -> list[str]:
    """One sentence for each file that is too long, and for each entry of the ratchet that is out of date."""
    problems = []
    for name, lines in sorted(sizes.items()):
        limit = limits.get(name.split("/", 1)[0])
        if limit is None:
            continue
        allowed = ratchet.get(name, limit)
        if lines > allowed:
            problems.append(f"{name}: {lines} lines, allowed are {allowed}; split it by role")
        elif name in ratchet and lines <= limit:
            problems.append(f"{name}: {lines} lines fit the limit of {limit}; take it out of the ratchet")
        elif name in ratchet and lines < allowed:
            problems.append(f"{name}: {lines} lines; lower its ratchet from {allowed}")
    problems += [
        f"{name}: in the ratchet, but there is no such file" for name in sorted(ratchet) if name not in sizes
    ]
    return problems


def main() -> int:
    """Print the median and the longest file of each folder, then the problems; the exit code says if any."""
    root = Path.cwd()
    settings = tomllib.loads(Path(__file__).with_name("file-sizes.toml").read_text())
    sizes = count_lines(root)
    for folder, limit in settings["limits"].items():
        found = {name: lines for name, lines in sizes.items() if name.startswith(f"{folder}/") and lines}
        if found:
            longest = max(found, key=lambda name: found[name])
            median = statistics.median(found.values())
            print(
                f"{folder}: {len(found)} files, median {median:g}, longest {found[longest]} of {limit} ({longest})"
            )
    problems = find_problems(sizes, settings["limits"], settings["ratchet"])
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
