"""Plans of statements as the server would run them."""

from typing import Any, NamedTuple

from tickwheel.adapters.postgresql.session import Params, Session


class Access(NamedTuple):
    """One node of a plan that reads a table."""

    node: str
    relation: str
    index_name: str | None


def accesses(session: Session, statement: bytes, params: Params | None = None) -> list[Access]:
    """How a statement reads its tables."""
    [[plans]] = session.rows(b"EXPLAIN (FORMAT JSON) " + statement, params)
    found: list[Access] = []
    _walk(plans[0]["Plan"], found)
    return found


def indexes_of(found: list[Access], table: str) -> dict[str, str]:
    """By leaf of a table, the index by which it is read; everything that is no index scan fails."""
    indexes: dict[str, str] = {}
    for access in found:
        if access.relation == table or access.relation.startswith(f"{table}_"):
            assert access.index_name is not None, access
            indexes[access.relation] = access.index_name
    return indexes


def _walk(plan: dict[str, Any], found: list[Access]) -> None:
    node = plan["Node Type"]
    if "Relation Name" in plan and node not in ("ModifyTable",):
        found.append(Access(node, plan["Relation Name"], plan.get("Index Name")))
    for below in plan.get("Plans", ()):
        _walk(below, found)
