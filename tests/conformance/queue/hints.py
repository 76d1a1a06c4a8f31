"""Hints and topics of the suite, and short ways to take."""

from tickwheel.domain.columns import Rows, empty
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import HINT, WEBHOOKS, Delivery, Queue, Topic

ALL = 10_000
HOOKS = Topic(Lane.DEFAULT, WEBHOOKS)
MAIL = Topic(Lane.DEFAULT, "handler:mail")


def hints(*fences: int) -> Rows:
    """Hints that are told apart by their tokens; the ids end in NUL bytes."""
    rows = empty(HINT, len(fences))
    for row, fence in zip(rows, fences, strict=True):
        row["job_id"] = fence.to_bytes(8, "big") + bytes(8)
        row["scheduled_ms"], row["fence"], row["flags"] = 1_790_000_000_000 + fence, fence, fence % 65_536
    return rows


def fences(rows: Rows) -> list[int]:
    return sorted(rows["fence"].tolist())


async def delivered(queue: Queue, topic: Topic = HOOKS, limit: int = ALL) -> Delivery:
    """The delivery of a take that must give one."""
    [delivery] = await queue.take([topic], limit)
    return delivery


async def taken(queue: Queue, *topics: Topic) -> list[int]:
    """The tokens of everything that a take gives of these topics."""
    deliveries = await queue.take(topics or (HOOKS,), ALL)
    return sorted(fence for delivery in deliveries for fence in fences(delivery.rows))
