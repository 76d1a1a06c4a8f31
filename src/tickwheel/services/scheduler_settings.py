"""What the firing side of a process may be told."""

from collections.abc import Mapping

import msgspec

from tickwheel.domain.rate import RateLimit


class SchedulerSettings(msgspec.Struct, frozen=True):
    """Lengths in ms, counts in rows."""

    lease_ms: int = 30_000
    window_ms: int = 3_600_000
    armed_limit: int = 10_000_000
    webhook_slots: int = 512
    webhook_host_limit: int = 64
    handler_slots: int = 512
    retention_ms: int = 7 * 86_400_000
    feed_poll_ms: int = 75
    near_ms: int = 300_000
    """Where there is a buffer: how far ahead the wheel holds timers (instead of `window_ms`), and the buffer."""
    buffer_ms: int = 7_200_000
    host_rates: Mapping[str, RateLimit] = {}
    handler_rates: Mapping[str, RateLimit] = {}
