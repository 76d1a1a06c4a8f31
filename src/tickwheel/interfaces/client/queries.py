"""The parameters of lists and of the preview, as keyword arguments."""

from datetime import datetime
from typing import Literal, TypedDict


class PageFields(TypedDict, total=False):
    """Which page: at most `limit` items, after the page whose `next_cursor` is `cursor`."""

    limit: int
    cursor: str | None


class JobFilters(PageFields, total=False):
    """All that are given must match."""

    status: str
    name_prefix: str
    schedule_type: Literal["ONE_OFF", "DELAYED", "CRON", "INSTANT"]
    priority: Literal["CRITICAL", "HIGH", "DEFAULT", "LOW"]
    tag: str
    due_from: datetime | str
    due_to: datetime | str
    order: Literal["created", "due"]


class PreviewFields(TypedDict, total=False):
    """For which zone, from when, and how many."""

    timezone: str
    start: datetime | str
    count: int
