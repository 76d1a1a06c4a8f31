"""Ids of transactions and snapshots of which were over, in PostgreSQL's sense.

A snapshot is "xmin:xmax:xip,...": ids from `xmax` on had not ended, `xip` are those below it that were still open,
and `xmin` is the lowest open one (= `xmax` when there is none). Example: 7 is open, 8 has committed: "7:9:7". What
7 writes becomes visible later, under an id that is lower than one already seen; that is why `unseen` names open
ids and not only a highest one.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

FIRST_XID: Final = 3


class Seen(NamedTuple):
    """A snapshot."""

    xmin: int
    xmax: int
    open: frozenset[int]

    @property
    def text(self) -> str:
        """As PostgreSQL writes it."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.open)))}"

    def sees(self, xid: int) -> bool:
        """Whether that transaction had ended."""
        return xid < self.xmax and xid not in self.open


def read_snapshot(text: str) -> Seen:
    """The snapshot that `Seen.text` wrote."""
    xmin, xmax, xip = text.split(":")
    return Seen(int(xmin), int(xmax), frozenset(map(int, xip.split(","))) if xip else frozenset())


class Transactions:
    """Ids in the order of their begins; a verb of the memory store ends the moment it begins."""

    def __init__(self) -> None:
        self.next_xid = FIRST_XID
        self.open: set[int] = set()
        self._latest_ended = FIRST_XID - 1
        self._latest_committed = FIRST_XID - 1

    def begin(self) -> int:
        """A new id, open from now on."""
        xid = self.next_xid
        self.next_xid += 1
        self.open.add(xid)
        return xid

    def end(self, xid: int, *, committed: bool = True) -> None:
        """The transaction is over."""
        self.open.remove(xid)
        self._latest_ended = max(self._latest_ended, xid)
        if committed:
            self._latest_committed = max(self._latest_committed, xid)

    def snapshot(self) -> Seen:
        """Which have ended by now."""
        xmax = self._latest_ended + 1
        still_open = frozenset(xid for xid in self.open if xid < xmax)
        return Seen(min(still_open, default=xmax), xmax, still_open)

    def unseen(self, since: Seen) -> Iterable[int]:
        """The ids that `since` had not seen and that have been given out by now."""
        yield from since.open
        yield from range(since.xmax, self.next_xid)

    def crash(self) -> None:
        """The server died: what was open is aborted, and its ids above the last commit are given out again."""
        self.open.clear()
        self.next_xid = self._latest_committed + 1
        self._latest_ended = self._latest_committed
