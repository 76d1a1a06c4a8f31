"""`limit` and `cursor`, which every list has."""

from tickwheel.domain.limits import LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX
from tickwheel.interfaces.http.query import Query


def paging(query: Query) -> tuple[int, str | None]:
    """(limit, cursor)"""
    return query.integer("limit", LIST_LIMIT_DEFAULT, 1, LIST_LIMIT_MAX), query.text("cursor")
