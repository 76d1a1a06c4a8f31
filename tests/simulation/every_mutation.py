"""All rules that are dropped in turn, and the table of them for people."""

from .mutations import MUTATIONS
from .worker_mutations import WORKER_MUTATIONS

EVERY = (*MUTATIONS, *WORKER_MUTATIONS)


def table() -> str:
    """All of it as a table for people: `python -m tests.simulation mutations` prints it."""
    lines = ["| rule | what is dropped | the fault that it lets in | noticed as |", "|---|---|---|---|"]
    for one in EVERY:
        fault = (one.scene.__doc__ or "").partition("\n\n")[0].replace("\n   ", "").strip().replace("\n", " ")
        lines.append(f"| {one.rule} | {one.dropped} | {fault} | {one.notices[0]} |")
    return "\n".join(lines)
