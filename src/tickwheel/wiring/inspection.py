"""What `tickwheel doctor` and `tickwheel audit` look at in a store."""

from typing import TYPE_CHECKING

from tickwheel.adapters.system import SystemClock
from tickwheel.wiring.shared_store import require_driver

if TYPE_CHECKING:
    from tickwheel.adapters.postgresql.inspection import Inspection as Inspection


def inspect_shared_store(url: str) -> "Inspection":
    """The server and the database behind a PostgreSQL address. Raises `ConfigError` and `StoreUnavailable`."""
    require_driver()
    from tickwheel.adapters.postgresql.inspection import inspect

    clock = SystemClock()
    return inspect(url, clock.wall_ms, clock.monotonic_us)
