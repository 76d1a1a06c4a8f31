"""The firing side of a node that fires nothing."""

from collections.abc import Sequence

from tickwheel.domain.columns import Rows


class Nobody:
    """Implements `ports.owner.Owner`: the owners elsewhere find everything in the store."""

    def arm(self, timers: Rows) -> None:
        """The feed brings them to their owner."""

    def forget_work(self, job_id: bytes) -> None:
        """Nothing is kept here."""

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        """Their workers find out at the next renewal, and can't commit from now on."""
