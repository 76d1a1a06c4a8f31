"""Notices: what happened that a rule of notification may want to be told, and how far that is done.

A notice is written by the transaction that makes it true (a run is buried or dropped, a schedule has no occurrence
left), and only while some rule of its tenant or of the installation exists: nobody pays for what nobody asked for.
The node that leads takes notices in and keeps, per rule and subject, what it still has to say (a *group*). Taking
in is one transaction: notices go, groups change. So a notice counts once, whoever dies when.

Groups as a whole have a version. A leader that was paused and doesn't know yet that it is none loses the race by
it, writes nothing, and reads again.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class Notice(msgspec.Struct, frozen=True):
    """Something happened. `number` names it in its store; 0 until it is stored."""

    kind: str  # a value of `domain.notifications.kinds.Kind`, or `DROPPED`
    tenant_id: str  # "": it belongs to no tenant
    job_id: bytes = b""
    scheduled_ms: int = 0
    at_ms: int = 0  # 0: just before it was read
    subject: str = ""  # of what is about no job
    detail: str = ""
    number: int = 0


class GroupKey(NamedTuple):
    """A rule, by its tenant and name, and what it has to say something of."""

    tenant_id: str
    rule: str
    subject: str


class Groups(NamedTuple):
    """All groups as they were at a version, each as JSON."""

    version: int
    bodies: Mapping[GroupKey, str]


class NoticeStore(Protocol):
    """Every store is one. Verbs raise `StoreUnavailable`, or `OutcomeUnknown`: then read the groups again."""

    async def add_notices(self, notices: Sequence[Notice]) -> None:
        """Keep those that some rule of their tenant, or of the installation, may want."""
        ...

    async def notices(self, limit: int) -> Sequence[Notice]:
        """The oldest ones."""
        ...

    async def notice_groups(self) -> Groups:
        """All of them."""
        ...

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        """Take these notices (by number) away and write the groups, all in one; the version rises by one.

        False, and nothing is written: the groups are at another version.
        """
        ...
