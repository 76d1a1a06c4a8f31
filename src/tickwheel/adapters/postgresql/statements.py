"""Named statements from the `.sql` files beside this module: each begins with a line `-- name: some_name`.

A line `-- plan: lookups` marks a statement that joins its batch to a table. The bounds that prune leaves
(`BETWEEN`) make the planner believe that hardly any row of a fresh leaf qualifies, so for a batch of hundreds it
would walk the leaf and compare each row with the whole batch: seconds. In a marked statement the lengths of the
arrays are hidden from it; then it takes the batch for small, and looks each of its rows up by key. The same plan
then serves batches of all lengths, so the server keeps it. (Arrays after ANY are not hidden: they prune.)

Reads that have nothing to prune leaves by are marked as well: planning one takes far longer than running it.
With the lengths hidden, a plan for any batch looks no dearer than one for this batch, so the server keeps it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

NAME_MARK: Final = "-- name:"
LOOKUPS_MARK: Final = "-- plan: lookups"
_ARRAY: Final = re.compile(r"(?<!ANY \()(%\(\w+\)s::\w+\[\])")


def load_statements(area: str) -> Mapping[str, bytes]:
    """The statements of `sql/<area>.sql` by name, without their comments, as the driver likes them."""
    statements: dict[str, list[str]] = {}
    looking_up: set[str] = set()
    name = ""
    for line in (files(__package__) / "sql" / f"{area}.sql").read_text("utf-8").splitlines():
        if line.startswith(NAME_MARK):
            name = line.removeprefix(NAME_MARK).strip()
            statements[name] = []
        elif line == LOOKUPS_MARK:
            looking_up.add(name)
        elif name and not line.lstrip().startswith("--"):
            statements[name].append(line)
    texts = {name: "\n".join(body).strip() for name, body in statements.items()}
    for name in looking_up:
        texts[name] = _ARRAY.sub(r"(SELECT \1)", texts[name])
    return {name: text.encode() for name, text in texts.items()}


@lru_cache(maxsize=256)
def in_leaves(statement: bytes, *relations: tuple[str, str]) -> bytes:
    """A statement with its marks filled in by (table, relation) pairs, as `near_leaves` names them.

    `{jobs}` becomes the relation; `{prunes jobs: ...}`, a condition that finds the leaves of the table, stays only
    where the relation is the table itself.
    """
    for table, relation in relations:
        is_table = relation == f"tickwheel.{table}"
        statement = re.sub(rb"\{prunes %s: (.*?)\}" % table.encode(), rb"\1" if is_table else b"", statement)
        statement = statement.replace(b"{%s}" % table.encode(), relation.encode())
    return statement
