"""The ports that webhooks may call.

A request of HTTP that reaches a server of another protocol can be read as commands there (mail, Redis,
memcached), and some services speak HTTP but are never meant for callbacks (Docker, etcd, Elasticsearch). So the
usual ports of those are refused unless they are listed; not so ports 1 and 9, where nothing acts on what it gets.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

DEFAULT_PORTS: Final = "default"
"""Stands for all ports but the refused ones, in a list of ports."""

PORT_MAX: Final = 65_535
_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)

_REFUSED_RANGES: Final = (
    *((7, 7), (11, 11), (13, 13), (15, 15), (17, 25), (37, 37), (42, 43), (49, 49), (53, 53), (67, 70), (77, 77)),
    *((79, 79), (87, 88), (95, 95), (101, 104), (107, 107), (109, 119), (123, 123), (135, 139), (143, 143)),
    *((161, 162), (177, 179), (194, 194), (389, 389), (427, 427), (445, 445), (464, 465), (500, 500), (512, 515)),
    *((520, 521), (526, 526), (530, 532), (540, 540), (543, 544), (546, 548), (554, 554), (556, 556), (563, 563)),
    *((587, 587), (601, 601), (636, 636), (646, 646), (691, 691), (749, 751), (853, 853), (860, 860), (873, 873)),
    *((902, 902), (989, 995), (1080, 1080), (1194, 1194), (1433, 1434), (1521, 1521), (1701, 1701), (1719, 1720)),
    *((1723, 1723), (1812, 1813), (1883, 1883), (2049, 2049), (2181, 2181), (2375, 2377), (2379, 2380)),
    *((3260, 3260), (3268, 3269), (3306, 3306), (3389, 3389), (3659, 3659), (4045, 4045), (4190, 4190)),
    *((4369, 4369), (5060, 5061), (5222, 5222), (5269, 5269), (5432, 5433), (5671, 5672), (5900, 5903)),
    *((6000, 6063), (6379, 6380), (6432, 6432), (6566, 6566), (6665, 6669), (6679, 6679), (6697, 6697)),
    *((8883, 8883), (9042, 9042), (9092, 9092), (9160, 9160), (9200, 9200), (9300, 9300), (10_250, 10_250)),
    *((10_255, 10_255), (11_211, 11_211), (26_379, 26_379), (27_017, 27_019)),
)
REFUSED_PORTS: Final = frozenset(port for low, high in _REFUSED_RANGES for port in range(low, high + 1))


class Ports(msgspec.Struct, frozen=True):
    """A set of ports: some ranges (first and last), and maybe all that are not refused."""

    ranges: tuple[tuple[int, int], ...] = ()
    ordinary: bool = False

    def __contains__(self, port: int) -> bool:
        if self.ordinary and port not in REFUSED_PORTS:
            return True
        return any(low <= port <= high for low, high in self.ranges)


ORDINARY_PORTS: Final = Ports(ordinary=True)


def read_ports(texts: Sequence[str]) -> Ports:
    """The ports in texts such as `default`, `443` and `8000-8999`. Raises ValueError that quotes the bad one."""
    ranges = tuple(_range(text) for text in texts if text != DEFAULT_PORTS)
    return Ports(ranges, DEFAULT_PORTS in texts)


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text.strip())
    low = int(found[1]) if found else 0
    high = int(found[2] or low) if found else 0
    if not 1 <= low <= high <= PORT_MAX:
        raise ValueError(f"{text!r} is not {DEFAULT_PORTS!r}, a port such as 443 or a range such as 8000-8999")
    return low, high
