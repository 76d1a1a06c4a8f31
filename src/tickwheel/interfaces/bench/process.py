"""What a server's process says of itself: its gauges, and the memory that it takes."""

import http.client
from pathlib import Path
from resource import getpagesize
from typing import Final

TIMEOUT_S: Final = 30


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
