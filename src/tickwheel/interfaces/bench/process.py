"""What a server's process says of itself: its gauges, and the memory that it takes."""

import http.client
import threading
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Final

from tickwheel.interfaces.bench.outcome import BenchFailed

TIMEOUT_S: Final = 30
ARMED: Final = "tickwheel_armed_timers"
ARM_LIMIT_S: Final = 900
"""Ten million timers on a slow machine take minutes."""
POLL_S: Final = 0.05


def gauge(port: int, name: str) -> float:
    """One number of `/metrics`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def resident_bytes(pid: int | str = "self") -> int:
    """The resident size of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * getpagesize()


def wait_until(done: Callable[[], bool], why_not: str) -> None:
    """Ask again and again, for as long as arming may take."""
    waited = threading.Event()
    for _ in range(int(ARM_LIMIT_S / POLL_S)):
        if done():
            return
        waited.wait(POLL_S)
    raise BenchFailed(f"{why_not} within {ARM_LIMIT_S} s")
