"""When one of several processes is started again after it has ended, and when that is of no use."""

from typing import Final

import msgspec

from tickwheel.interfaces.cli.failures import ExitCode

CRASH_LIMIT: Final = 5
CALM_S: Final = 30
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0


class Reason(msgspec.Struct, frozen=True):
    """Why a process could not start, in its own words."""

    lines: list[str]
    code: ExitCode


class Ended(msgspec.Struct, frozen=True):
    """How a process ended; `was_asked` when it drained because somebody sent it SIGTERM."""

    cause: str
    lived_s: float
    was_asked: bool = False
    reason: Reason | None = None


class Restarts:
    """Counts how often in a row one process ended soon after its start."""

    def __init__(self) -> None:
        self._crashes = 0

    def pause_s(self, ended: Ended, *, others_ready: bool) -> float | None:
        """How long to wait before the next start; None: give up.

        A process that says why it can't start (no database, say) is tried for as long as another one is ready:
        that one works, and may go on working.
        """
        self._crashes = 0 if ended.was_asked or ended.lived_s > CALM_S else self._crashes + 1
        if self._crashes >= CRASH_LIMIT and not (ended.reason is not None and others_ready):
            return None
        if not self._crashes:
            return 0.0
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._crashes - 1, 10))
