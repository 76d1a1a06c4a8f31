"""Delays: stretches of time in which a node let certain due runs wait, and why.

Nothing is written per run: one delay tells of all runs that it held back, however many, and a run is matched with
it by what it waits for and when. So recording them costs nothing where runs are fired.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from tickwheel.domain.ids import SHARD_COUNT

ALL_SHARDS: Final = ""


class DelayKind(StrEnum):
    """What held runs back; stored."""

    ALIVE = "alive"  # no delay: the node was there. What lies between two of these is a START.
    START = "start"  # no server ran
    TAKEOVER = "takeover"  # their owner had died; `subject` is its incarnation
    STORE = "store"  # the node could not reach the store; `subject` is the loop that said so
    TARGET = "target"  # places or the rate of a target were used up, or it is in trouble; `subject` is its host
    LIMIT = "limit"  # a limit of concurrency; `subject` is what is counted
    SLOTS = "slots"  # all slots were taken; `subject` is executor and lane
    TENANT = "tenant"  # the tenant is disabled, or has begun as many runs in a second as it may
    WORKER = "worker"  # nothing that lives runs this target; `subject` is the handler


class Delay(msgspec.Struct, frozen=True, gc=False):
    """One of them. `until_ms` is when it was over, or until when it is known to have lasted.

    `shards` are those that it was about (`shards_text`), `ALL_SHARDS` for all that the node held.
    """

    kind: DelayKind
    subject: str
    node: str
    from_ms: int
    until_ms: int
    detail: str = ""
    shards: str = ALL_SHARDS

    def is_about(self, shard: int) -> bool:
        """Whether runs of that shard were held back."""
        return not self.shards or bool(int(self.shards, 16) >> shard & 1)


def shards_text(shards: Iterable[int]) -> str:
    """A set of shards as a number in hexadecimal, with bit n for shard n."""
    held = sum(1 << shard for shard in set(shards))
    return ALL_SHARDS if held == (1 << SHARD_COUNT) - 1 else f"{held:x}"
