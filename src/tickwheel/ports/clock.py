"""Time and randomness, as the services see them."""

from typing import Protocol


class Clock(Protocol):
    """Where every instant, delay and deadline comes from.

    `now_ms` estimates the store's clock: it never runs backwards within a process, whatever the machine's
    wall clock does (steps are slewed). Loops sleep through `sleep_ms` so that a virtual clock can jump.
    """

    def now_ms(self) -> int:
        """UTC epoch milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary origin, unaffected by clock steps."""
        ...

    async def sleep_ms(self, length_ms: int) -> None:
        """Suspend the caller; 0 or less yields once."""
        ...


class Randomness(Protocol):
    """Where jitter and the random part of ids come from."""

    def fraction(self) -> float:
        """A float in [0, 1)."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes."""
        ...
