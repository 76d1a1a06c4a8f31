"""From which number on packs of a topic are looked for, so that those which have left cost nothing.

A row that was deleted stays in the index until no transaction is left that might see it. Beside a dump of hours,
each look for the oldest packs of a topic would walk over everything that has left since it began, more and more.
So each session learns the lowest number alive of each of its topics now and then, and looks from there on.

Numbers are drawn before they are committed. What was drawn `PERIOD_MS` before a look was committed by then, or
never will be; so only below such a number is what the look doesn't find really gone. A crash of the server empties
the table and lets numbers begin anew; but a new session knows nothing yet, and looks at everything.
"""

from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.postgresql.session import Session
from tickwheel.ports.queue import Topic

PERIOD_MS: Final = 3_000
"""How often they are learned; a statement that publishes is never under way for as long."""
MOST_TOPICS: Final = 1_000
"""With more, all is forgotten."""


class Floors:
    """Of one session; used by one thread at a time."""

    def __init__(self, statement: bytes, now_ms: int) -> None:
        self._statement = statement
        self._floors: dict[Topic, int] = {}
        self._drawn = 0  # the last number that had been drawn at `_learned_ms`
        self._learned_ms = now_ms

    def of(self, topics: Sequence[Topic], session: Session, now_ms: int) -> list[int]:
        """Nothing below these numbers is there to take."""
        if now_ms - self._learned_ms >= PERIOD_MS:
            self._learn(session, now_ms)
        if len(self._floors) > MOST_TOPICS:
            self._floors.clear()
        return [self._floors.setdefault(topic, 0) for topic in topics]

    def _learn(self, session: Session, now_ms: int) -> None:
        params = {
            "lanes": [int(topic.lane) for topic in self._floors],
            "routes": [topic.route for topic in self._floors],
            "floors": list(self._floors.values()),
        }
        lowest, drawn = [], self._drawn
        for number, last in session.rows(self._statement, params):
            lowest.append(self._drawn + 1 if number is None else min(int(number), self._drawn + 1))
            drawn = int(last)
        self._floors = dict(zip(self._floors, lowest, strict=True))
        self._drawn, self._learned_ms = drawn, now_ms
