"""The firing side of a node that fires nothing."""

from collections.abc import Mapping, Sequence

from tickwheel.domain.columns import Rows
from tickwheel.ports.shards import Pair, Taken


class Nobody:
    """Implements `ports.owner.Owner`: the owners elsewhere find everything in the store.

    And `ownership.intake.Intake`, for a member of a cluster that never gets a shard.
    """

    def arm(self, timers: Rows) -> None:
        """The feed brings them to their owner."""

    def forget_work(self, job_id: bytes) -> None:
        """Nothing is kept here."""

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        """Their workers find out at the next renewal, and can't commit from now on."""

    def adopt(self, taken: Sequence[Taken]) -> None:
        """Who is no candidate takes nothing."""

    def drop(self, shards: Sequence[int]) -> None:
        """There is nothing to forget."""

    async def quiesce(self, shards: Sequence[int]) -> None:
        """Nothing is claimed here."""

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        """None."""
        return {}
