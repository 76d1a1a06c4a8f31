"""Decides which shards this process owns, and moves them.

    coordinator -> Beats -> Membership --+
    peers (is the process gone?) --------+--> look --> depose the dead, take, give up, drop
    store (the table of shards) ---------+                    |
                                                   Custody: Holdings + Intake

A **look** compares the members, the table of shards and what is held, and does what is missing. It runs each
second (G5), at once when a member changes its standing or a peer nudges, and each 100 ms while it waits for what a
living node has yet to release. A look that fails changes nothing that the next one would not find.

Failures that this survives. *A node is killed*: its port refuses, its beats end, after 400 ms it is deposed as
proved dead and each survivor takes its part. *A node hangs, or is cut off*: the same after a second of silence,
without the proof. *It wakes up after 40 s*: its claims are refused by the store; it finds itself deposed, drops
all shards and goes on under a new incarnation. *The coordinator is away*: membership is frozen and firing goes on.
*Only this node lost the store*: it stops beating, others take over. *The answer to a take is lost*: the shard
stands under our name without being held, and is taken again.

A node that fires nothing (the role api alone) is a member like the others, who is seen and counted. It is never
ranked and never leads (G3), and deposes nobody: that would free no shard sooner, for whoever takes one looks for
himself, and a node that clients can overload should have no say in who fires.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.scaling import LaneLoad
from tickwheel.domain.vitals import Vitals
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.coordinator import Coordinator
from tickwheel.ports.events import Deposed, EventSink
from tickwheel.ports.peers import Peers
from tickwheel.ports.shards import ShardState, ShardStore
from tickwheel.services.alarm import Alarm, wait_at_most
from tickwheel.services.ownership.beats import NOTICE_MS, READ_MS, Beats
from tickwheel.services.ownership.custody import Custody
from tickwheel.services.ownership.dead_nodes import DeadNodes, earlier_names
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.intake import Intake
from tickwheel.services.ownership.leadership import Leadership
from tickwheel.services.ownership.membership import Member, Membership, Standing, candidates
from tickwheel.services.ownership.node_note import NodeNote, incarnation_of, process_name, process_of
from tickwheel.services.ownership.placement import plan
from tickwheel.services.ownership.store_contact import StoreContact
from tickwheel.services.supervision import supervise

GOODBYE_MS: Final = 2_000
"""How long a node that ends tries to tell so; what remains is found by the others."""


class OwnershipSettings(msgspec.Struct, frozen=True):
    """Lengths in ms."""

    dead_ms: int = 1_000  # silence after which a node is declared dead
    look_ms: int = 1_000
    awaiting_look_ms: int = 100
    group_shards: int = 32  # given up at a time, so that each is without an owner for a moment only


class Ownership:
    """Built first, then `start`; at the end `hand_over`, and `leave` when nothing of the process runs any more."""

    def __init__(
        self,
        *,
        store: ShardStore,
        coordinator: Coordinator,
        peers: Peers,
        holdings: Holdings,
        intake: Intake,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        note: NodeNote,
        settings: OwnershipSettings = OwnershipSettings(),  # noqa: B008 -- frozen
    ) -> None:
        self._store, self._coordinator, self._peers = store, coordinator, peers
        self._clock, self._events, self._settings = clock, events, settings
        self.process = process_name(note.name, randomness.random_bytes(8))
        self._number = 0
        self.incarnation = incarnation_of(self.process, 0)
        self.contact = StoreContact(store=store, clock=clock)
        self._membership = Membership(dead_ms=settings.dead_ms)
        self._beats = Beats(
            coordinator=coordinator,
            membership=self._membership,
            contact=self.contact,
            clock=clock,
            events=events,
            note=note,
            on_round=self._after_round,
        )
        self._custody = Custody(store=store, holdings=holdings, intake=intake, events=events)
        self._dead_nodes = DeadNodes(
            store=store, coordinator=coordinator, peers=peers, events=events, process=self.process
        )
        self.leadership = Leadership(
            coordinator=coordinator,
            incarnation=lambda: self.incarnation,
            may_lead=lambda: self._is_trusted() and self._beats.note.is_candidate,
            clock=clock,
            events=events,
        )
        self._alarm = Alarm(clock)
        self._exhausted: set[int] = set()
        self._leaves = False
        self._empty = asyncio.Event()
        self._signature: object = None
        self._loops: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Become a member and begin to take shards."""
        address = await self._peers.open(self.process, self._alarm.ring)
        self._beats.say(address=address)
        try:
            await self._enlist()
        except BaseException:
            await self._peers.aclose()
            raise
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "store contact": self.contact.run,
            "beats": self._beats.run,
            "ownership": self._run_looks,
            "leadership": self.leadership.run,
        }
        for name, loop in loops.items():
            self._loops[name] = asyncio.create_task(supervise(name, loop, self._clock, self._events), name=name)

    def members(self) -> list[Member]:
        """The other incarnations as they are judged now."""
        return self._membership.members()

    @property
    def note(self) -> NodeNote:
        """What this node says about itself."""
        return self._beats.note

    def set_unfit(self, reason: str) -> None:
        """Give the shards to fit nodes, if there are any ("": fit again). They are kept while there is none."""
        self._beats.say(unfit=reason)
        self._alarm.ring()

    def set_clock_difference(self, difference_ms: int) -> None:
        """Tell the others how far this machine's clock is off."""
        self._beats.say(clock_difference_ms=difference_ms)

    def say_load(self, load: Sequence[LaneLoad]) -> None:
        """What this node has for workers elsewhere."""
        self._beats.say(load=tuple(load))

    def say_vitals(self, vitals: Vitals) -> None:
        """How this node does."""
        self._beats.say(vitals=vitals, leads=self.leadership.is_leader())

    def loads(self) -> Sequence[Sequence[LaneLoad]]:
        """The same of all others that are alive."""
        return [member.note.load for member in self.members() if member.standing is Standing.ALIVE]

    def lost(self, found: Mapping[int, int]) -> None:
        """The store refused a claim or a pair of these (shard -> epoch it was made under): they are gone."""
        held = self._custody.held()
        self._custody.lose([shard for shard, epoch in found.items() if held.get(shard) == epoch])
        self._alarm.ring()

    def exhausted(self, shards: Sequence[int]) -> None:
        """The tokens of these shards run out: they need a new epoch (D5)."""
        self._exhausted.update(shards)
        self._alarm.ring()

    async def hand_over(self, limit_ms: int) -> None:
        """Give all shards away, a group at a time, while everything else goes on.

        The others are told first, so that they take what is released at once. Ends when nothing is held, or when
        the time is over; `leave` gives up the rest.
        """
        self._beats.say(draining=True)
        await self._clock.sleep_ms(READ_MS + NOTICE_MS)
        self._leaves = True
        self._empty.clear()
        self._alarm.ring()
        if self._loops:
            await wait_at_most(self._empty.wait(), limit_ms, self._clock)

    async def leave(self) -> None:
        """The last act: nothing of this process runs any more, so it may be held to be dead at once."""
        await self.stop()
        await wait_at_most(self._say_goodbye(), GOODBYE_MS, self._clock)
        await self._peers.aclose()

    async def stop(self) -> None:
        """End the loops and tell nobody."""
        for loop in self._loops.values():
            loop.cancel()
        await asyncio.gather(*self._loops.values(), return_exceptions=True)
        self._loops.clear()

    async def _say_goodbye(self) -> None:
        me = self.incarnation
        acts: Sequence[Callable[[], Awaitable[None]]] = (
            lambda: self._custody.give_up(me, list(self._custody.held())),
            self.leadership.resign,
            self._declare_own_end,
            lambda: self._coordinator.leave(me),
        )
        for act in acts:
            with suppress(StoreUnavailable, OutcomeUnknown, ConnectionError):  # the others find out in time
                await act()
        self._peers.nudge()

    async def _declare_own_end(self) -> None:
        for name in (self.incarnation, *earlier_names(self.incarnation)):
            await self._store.depose(name, proved_dead=True)

    async def _enlist(self) -> None:
        """Become somebody new, who owns nothing yet."""
        former = self.incarnation
        self._beats.begin(None)
        self._custody.lose(self._custody.held())
        self._number += 1
        incarnation = incarnation_of(self.process, self._number)
        sent_ms = self._clock.monotonic_ms()
        await self._store.enlist(incarnation)
        self.contact.touch(sent_ms)
        self.incarnation = incarnation
        self._beats.begin(incarnation)
        if process_of(former)[1]:
            self._events.emit(Deposed(incarnation=former, successor=incarnation))
            with suppress(ConnectionError):  # its beats have ended; it is cleared away in time
                await self._coordinator.leave(former)

    async def _run_looks(self) -> None:
        while True:
            pause_ms = await self._look()
            await self._alarm.sleep_ms(pause_ms)

    async def _look(self) -> int:
        """Do what is to be done now; gives when to look again."""
        await self._renew_exhausted()
        sent_ms = self._clock.monotonic_ms()
        states = await self._store.list_shards()
        owners = {state.owner for state in states if state.owner is not None} - {self.incarnation}
        self._membership.expect(owners, self._clock.monotonic_ms())
        members = self._membership.members()
        names = {self.incarnation, *owners, *(member.incarnation for member in members)}
        deposed = set(await self._store.deposed(sorted(names)))
        self.contact.touch(sent_ms)
        if self.incarnation in deposed:
            await self._enlist()
            return self._settings.awaiting_look_ms
        trusted = self._is_trusted()
        if trusted and self._beats.note.fires:
            deposed = await self._dead_nodes.depose(members, deposed)
        return await self._act(states, members, deposed, trusted=trusted)

    async def _act(
        self, states: Sequence[ShardState], members: Sequence[Member], deposed: set[str], *, trusted: bool
    ) -> int:
        me = self.incarnation
        now = plan(
            me=me,
            is_candidate=self._beats.noticed_note.is_candidate and not self._leaves,
            leaves=self._leaves,
            ranked=candidates(members, deposed),
            deposed=deposed,
            states=states,
            held=self._custody.held(),
        )
        self._custody.lose(now.drop)
        awaited_count = now.awaited_count
        if trusted:
            if now.disown:
                await self._store.release(me, now.disown)
            awaited_count += len(now.take) - await self._custody.take(me, now.take, states)
        if now.give_up and (trusted or self._leaves):
            await self._custody.give_up(me, now.give_up[0][: self._settings.group_shards])
            self._peers.nudge()
            return 0
        if self._leaves and not self._custody.held():
            self._empty.set()
        return self._settings.awaiting_look_ms if trusted and awaited_count else self._settings.look_ms

    async def _renew_exhausted(self) -> None:
        exhausted, self._exhausted = sorted(self._exhausted), set()
        if exhausted:
            await self._custody.renounce(exhausted)

    def _is_trusted(self) -> bool:
        return self._membership.trusted_at(self._clock.monotonic_ms())

    def _after_round(self) -> None:
        """Link to whoever is a member, and look at once when somebody is judged differently."""
        members = self._membership.members()
        addresses = {process_of(member.incarnation)[0]: member.note.address for member in members}
        addresses.pop(self.process, None)
        self._peers.watch({process: address for process, address in addresses.items() if address})
        signature = (
            self._is_trusted(),
            self._beats.noticed_note.is_candidate,
            [
                (
                    member.incarnation,
                    member.standing,
                    member.note.is_candidate,
                    self._dead_nodes.is_dead(member),
                    self._dead_nodes.is_proved(member),
                )
                for member in members
            ],
        )
        if signature != self._signature:
            self._signature = signature
            self._alarm.ring()
