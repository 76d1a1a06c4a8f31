"""Writes the generated part of `docs/reference/metrics.md` from the catalogue of metrics.

usage: python tools/metrics_reference.py [--check]      (--check writes nothing and fails when the page is old)
"""

import sys
from pathlib import Path

from generated_page import GeneratedPage, table
from tickwheel.adapters.telemetry.catalogue import GROUPS, Family


def render() -> str:
    """One table per group."""
    heads = ("metric", "type", "labels", "meaning", "shown by")
    return "\n\n".join(
        f"## {title}\n\n{table(heads, [_row(one) for one in families])}" for title, families in GROUPS.items()
    )


def _row(family: Family) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"`{family.shown}`", family.kind.value, labels, family.help, family.where.value


PAGE = GeneratedPage(Path("docs/reference/metrics.md"), tool="metrics_reference.py", render=render)

if __name__ == "__main__":
    sys.exit(PAGE.main(sys.argv[1:]))
