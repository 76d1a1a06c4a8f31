"""Fails when a tracked file carries something that belongs to one machine or one person's tools.

Looked for: private paths, hosts of package registries, lock files that name such hosts, and files of coding
assistants. One letter of each pattern stands in brackets, so that this file does not trip over itself.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracked_files import read_text, tracked_files

FORBIDDEN_NAMES = re.compile(
    r"""(^|/)(
        u[v]\.lock | pyloc[k](\..+)?\.toml | poetr[y]\.lock | Pipfil[e]\.lock
      | CLAUD[E](\..+)?\.md | AGENT[S](\..+)?\.md | GEMIN[I]\.md | \.curso[r]rules | \.windsur[f]rules
      | copilo[t]-instructions\.md | \.aide[r].* | \.mc[p]\.json
      | (\.claud[e]|\.curso[r]|\.windsur[f]|\.code[x]|\.gemin[i])/.*
    )$""",
    re.VERBOSE,
)
FORBIDDEN_TEXT = {
    "private path": re.compile(
        r"(?<![\w.~-])/((wor[k]|far[m]|roo[t]|tm[p]/t[w])/|(hom[e]|User[s])/[A-Za-z_][\w.-]*)"
    ),
    "package host": re.compile(
        r"files\.pythonhoste[d]|pyp[i]\.org/simple|registry\.npm[j]s|registry\.yar[n]pkg|deb\.debia[n]\.org"
        r"|repo1?\.mave[n]|proxy\.golan[g]|(registry|resolved|index-url)[^a-z\n]{1,4}http[s]?://"
    ),
    "coding assistant": re.compile(
        r"\b(claud[e]|anthropi[c]|chatgp[t]|opena[i]|copilo[t]|gemin[i]|curso[r] ide|co-authored-b[y])\b",
        re.IGNORECASE,
    ),
}


def find_in_names(paths: Iterable[Path]) -> list[str]:
    """The paths that should not be tracked at all."""
    return [
        f"{path.as_posix()}: does not belong here" for path in paths if FORBIDDEN_NAMES.search(path.as_posix())
    ]


def find_in_text(name: str, text: str) -> Iterator[str]:
    """Each forbidden word of a text, with its place."""
    for number, line in enumerate(text.splitlines(), 1):
        for kind, pattern in FORBIDDEN_TEXT.items():
            if match := pattern.search(line):
                yield f"{name}:{number}: {kind}: {match.group().strip()}"


def main() -> int:
    """Print every finding; the exit code says if there was one."""
    root = Path.cwd()
    paths = tracked_files(root)
    problems = find_in_names(paths)
    for path in paths:
        text = read_text(root / path)
        if text is not None:
            problems += find_in_text(path.as_posix(), text)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    print(f"{len(paths)} files, nothing private in them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
