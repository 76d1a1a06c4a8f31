"""The machine's clock and randomness, for whatever runs without a node."""

from tickwheel.adapters.system import SystemClock, SystemRandomness


def system_clock() -> SystemClock:
    """The machine's clock, for tools that run without a node."""
    return SystemClock()


def system_randomness() -> SystemRandomness:
    """The machine's randomness, for tools that run without a node."""
    return SystemRandomness()
