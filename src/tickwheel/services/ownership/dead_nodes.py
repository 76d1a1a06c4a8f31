"""Declares nodes dead: from then on they claim nothing, and their shards are free.

Two kinds of death. *Silent*: no beat for a second. Such a node may be paused or cut off and wake up; its claims
are refused from now on, but an attempt that it started may still be running, so its runs wait for their leases.
*Proved*: its process is known to have ended (see `ports.peers`) and it has not beaten for 400 ms; then its runs in
flight start elsewhere at once. A silent node may be proved dead later.

The proof is as good as the network is honest: a firewall that answers with resets in the name of a host which it
hides looks like a host where the process is gone. That is why the beats must be missing as well, and why the
tokens, not the proof, guard what an attempt may commit.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from tickwheel.ports.coordinator import Coordinator
from tickwheel.ports.events import EventSink, MemberLost
from tickwheel.ports.peers import Peers
from tickwheel.ports.shards import ShardStore
from tickwheel.services.ownership.membership import Member, Standing
from tickwheel.services.ownership.node_note import incarnation_of, process_of

PROOF_SILENCE_MS: Final = 400
"""Two beats: also a process whose port is gone must have stopped beating."""
FORGET_MS: Final = 600_000
"""After so long, the last beat of a silent node is cleared away; it is a member again should it beat again."""
EARLIER_NAMES: Final = 16
"""So many earlier incarnations of a process that is proved dead are told to be dead with it."""


class DeadNodes:
    """What was said about whom, and whom to depose now."""

    def __init__(
        self, *, store: ShardStore, coordinator: Coordinator, peers: Peers, events: EventSink, process: str
    ) -> None:
        self._store, self._coordinator, self._peers = store, coordinator, peers
        self._events, self._process = events, process
        self._proved: set[str] = set()

    def is_proved(self, member: Member) -> bool:
        """Whether the member's process has ended."""
        process, _ = process_of(member.incarnation)
        gone = process != self._process and self._peers.is_gone(process)
        return gone and member.silent_ms >= PROOF_SILENCE_MS

    def is_dead(self, member: Member) -> bool:
        """Whether the member is to be deposed."""
        return member.standing is Standing.SILENT or self.is_proved(member)

    async def depose(self, members: Iterable[Member], deposed: Collection[str]) -> set[str]:
        """Depose those who died and are not deposed yet; gives all who are deposed now."""
        now_deposed = set(deposed)
        members = list(members)
        self._proved &= {member.incarnation for member in members}
        for member in members:
            if self.is_dead(member):
                await self._depose(member, now_deposed)
        return now_deposed

    async def _depose(self, member: Member, deposed: set[str]) -> None:
        incarnation, proved = member.incarnation, self.is_proved(member)
        if incarnation not in deposed or (proved and incarnation not in self._proved):
            await self._store.depose(incarnation, proved_dead=proved)
            for name in earlier_names(incarnation) if proved else []:
                await self._store.depose(name, proved_dead=True)
            self._events.emit(
                MemberLost(
                    incarnation=incarnation, proved=proved, silent_ms=member.silent_ms, fired=member.note.fires
                )
            )
            deposed.add(incarnation)
            if proved:
                self._proved.add(incarnation)
        if proved or member.silent_ms >= FORGET_MS:
            with suppress(ConnectionError):  # the next look clears it away
                await self._coordinator.leave(incarnation)


def earlier_names(incarnation: str) -> list[str]:
    """Under which the same process was a member before: runs that it claimed then may still bear them."""
    process, number = process_of(incarnation)
    return [incarnation_of(process, earlier) for earlier in range(max(1, number - EARLIER_NAMES), number)]
