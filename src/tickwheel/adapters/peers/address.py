"""Where a process listens, as text: `10.0.0.7:4711`, `[fd00::7]:4711`, or `127.0.0.1:4711#<network>`.

A loopback address means another place on each machine (and in each container). It carries the identity of the
network stack that it belongs to; elsewhere it is no address at all, or a refusal by our own machine would be taken
for the death of a process on another one.
"""

import os
import re
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

_PORT: Final = re.compile(r"[0-9]{1,5}")


class Address(NamedTuple):
    """A host and a port that can be connected to from here."""

    host: str
    port: int


def is_loopback(host: str) -> bool:
    """Whether that host is the own machine, from wherever it is asked."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def print_address(host: str, port: int, network: str) -> str:
    """The text for others."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{shown}#{network}" if is_loopback(host) else shown


def parse_address(text: str, network: str) -> Address | None:
    """The place that the text means on this machine; None when it means none here."""
    place, _, belongs_to = text.partition("#")
    host, _, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "[" in host or "]" in host or _PORT.fullmatch(port) is None or not 0 < int(port) < 65_536:
        return None
    if is_loopback(host) and belongs_to != network:
        return None
    return Address(host, int(port))


def own_network() -> str:
    """The identity of this process's network stack: this boot of the machine, and its network namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()
