"""How long ago the beats of others changed, as one observer saw it, on its own monotonic clock.

Example: an observer reads at 0, 200 and 400 ms and finds the revisions 7, 9 and 9 for incarnation `a`. `a` was
last seen to change at 200, so at 400 it has been silent for 200 ms. If the read at 600 fails, all that is
forgotten: a coordinator that was away is no sign that anybody else was.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class _Sighting(NamedTuple):
    revision: int
    changed_ms: int


class Sightings:
    """The last change of each incarnation's beat."""

    def __init__(self, lapse_ms: int) -> None:
        self._lapse_ms: Final = lapse_ms
        self._seen: dict[str, _Sighting] = {}
        self._written_ms: dict[str, int] = {}

    def see_all(self, revisions: Mapping[str, int], now_ms: int) -> None:
        """These are all members, as just read."""
        for incarnation, revision in revisions.items():
            self.see(incarnation, revision, now_ms)
        for incarnation in self._seen.keys() - revisions.keys():
            self.forget(incarnation)

    def see(self, incarnation: str, revision: int, now_ms: int) -> None:
        """The beat has this revision; only another one than before is a change."""
        known = self._seen.get(incarnation)
        if known is None or known.revision != revision:
            self._seen[incarnation] = _Sighting(revision, now_ms)

    def wrote(self, incarnation: str, now_ms: int) -> None:
        """A beat that this process sent at `now_ms` was taken: an incarnation of its own."""
        self._written_ms[incarnation] = now_ms

    def is_silent(self, incarnation: str, now_ms: int) -> bool:
        """Whether its beat is known not to have changed for the lapse.

        For an incarnation of this process an outage is no excuse: others may have counted on.
        """
        known = self._seen.get(incarnation)
        if known is not None and now_ms - known.changed_ms >= self._lapse_ms:
            return True
        written_ms = self._written_ms.get(incarnation)
        return written_ms is not None and now_ms - written_ms >= self._lapse_ms

    def forget(self, incarnation: str) -> None:
        """It left."""
        self._seen.pop(incarnation, None)
        self._written_ms.pop(incarnation, None)

    def start_anew(self) -> None:
        """A call failed: nobody's silence until now counts."""
        self._seen.clear()
