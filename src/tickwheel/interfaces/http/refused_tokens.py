"""A warning for tokens that are refused: where they came from, and of which key they claim to be.

Whoever guesses, and whoever goes on with a key that was revoked, repeats it a thousand times. So each of them is
told once a minute, and so many in all; what was held back is counted in the next line.
"""

from typing import Final

import structlog

from tickwheel.domain.api_keys import parse_key
from tickwheel.interfaces.http.auth import token_in
from tickwheel.ports.clock import Clock

MINUTE_MS: Final = 60_000
LINES_PER_MINUTE: Final = 20


class RefusedTokens:
    """Those of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger().bind()
        self._minute_ends_ms = 0
        self._told: set[tuple[str, str]] = set()
        self._held_back = 0

    def tell(self, source: str, authorization: bytes) -> None:
        """A request from `source` with this header was answered with 401."""
        now_ms, who = self._clock.monotonic_ms(), (source, claimed_key(authorization))
        if now_ms >= self._minute_ends_ms:
            self._minute_ends_ms = now_ms + MINUTE_MS
            self._told.clear()
        if who in self._told or len(self._told) >= LINES_PER_MINUTE:
            self._held_back += 1
            return
        self._told.add(who)
        held_back, self._held_back = self._held_back, 0
        key = {"key_id": who[1]} if who[1] else {}
        self._log.warning("token.refused", source=source, **key, held_back=held_back)


def claimed_key(authorization: bytes) -> str:
    """The id of the key that a header claims to hold, which is no secret; nothing for what has not its form."""
    given = token_in(authorization)
    parsed = None if given is None else parse_key(given.decode("latin-1"))
    return "" if parsed is None else parsed[0]
