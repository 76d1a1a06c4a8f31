"""Named statements from the `.sql` files beside this module: each begins with a line `-- name: some_name`."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

NAME_MARK: Final = "-- name:"


def load_statements(area: str) -> Mapping[str, bytes]:
    """The statements of `sql/<area>.sql` by name, without their comments, as the driver likes them."""
    statements: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (files(__package__) / "sql" / f"{area}.sql").read_text("utf-8").splitlines():
        if line.startswith(NAME_MARK):
            lines = statements.setdefault(line.removeprefix(NAME_MARK).strip(), [])
        elif not line.lstrip().startswith("--"):
            lines.append(line)
    return {name: "\n".join(body).strip().encode() for name, body in statements.items()}
