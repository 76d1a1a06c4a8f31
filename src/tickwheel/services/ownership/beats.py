"""This node's sign of life, and its reading of everybody else's.

One loop, on the event loop that fires: if that one hangs, the beats end (G4). They also end when the store has not
answered for a second, because a node that can't claim must not keep its shards. A round is a beat (each 200 ms)
and a reading (each 100 ms); one that fails makes all silences begin anew, see `membership`.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Coordinator
from tickwheel.ports.events import EventSink, MembershipFrozen
from tickwheel.services.ownership.membership import Membership
from tickwheel.services.ownership.node_note import NodeNote, encode_note
from tickwheel.services.ownership.store_contact import StoreContact

BEAT_MS: Final = 200
READ_MS: Final = 100
STORE_AGE_LIMIT_MS: Final = 1_000
NOTICE_MS: Final = READ_MS + 50
"""So long after a beat was written, everybody has read it, if all goes well."""


class Beats:
    """Shows `note` under `incarnation`, and feeds `membership`. `on_round` follows each round."""

    def __init__(
        self,
        *,
        coordinator: Coordinator,
        membership: Membership,
        contact: StoreContact,
        clock: Clock,
        events: EventSink,
        note: NodeNote,
        on_round: Callable[[], None],
    ) -> None:
        self._coordinator, self._membership, self._contact = coordinator, membership, contact
        self._clock, self._events, self._on_round = clock, events, on_round
        self.note = self._noticed = note
        self._written: tuple[NodeNote, int] | None = None  # shown since then, not noticed by all yet
        self._incarnation: str | None = None
        self._counter = 0
        self._beaten_ms: int | None = None
        self._frozen = False

    def begin(self, incarnation: str | None) -> None:
        """From now on beat as that one; None: as nobody."""
        self._incarnation, self._counter, self._beaten_ms = incarnation, 0, None
        self._membership.begin_anew(self._clock.monotonic_ms())

    def say(self, **changes: object) -> None:
        """Change the note; the next round shows it."""
        note = msgspec.structs.replace(self.note, **changes)
        if note != self.note:
            self.note, self._beaten_ms = note, None

    @property
    def noticed_note(self) -> NodeNote:
        """What the others know of this node.

        Who becomes unfit acts on that only when the others know it, or it would release shards that everybody
        takes to be its own.
        """
        if self._written is not None and self._clock.monotonic_ms() - self._written[1] >= NOTICE_MS:
            self._noticed, self._written = self._written[0], None
        return self._noticed

    async def run(self) -> None:
        """Beat and read for ever."""
        while True:
            began_ms = self._clock.monotonic_ms()
            await self.round()
            took_ms = self._clock.monotonic_ms() - began_ms
            await self._clock.sleep_ms(max(1, READ_MS - took_ms))

    async def round(self) -> None:
        """One beat, if it is time, and one reading."""
        incarnation = self._incarnation
        if incarnation is None:
            return
        store_age_ms = self._contact.age_ms()
        if store_age_ms is None or store_age_ms >= STORE_AGE_LIMIT_MS:
            self._fail("the store does not answer")
            return
        try:
            await self._beat(incarnation)
            asked_ms = self._clock.monotonic_ms()
            beats = dict(await self._coordinator.members())
        except ConnectionError as error:
            self._fail(str(error) or type(error).__name__)
            return
        if incarnation != self._incarnation:
            return  # deposed meanwhile; this round was somebody else's
        mine = beats.pop(incarnation, None)
        if mine is None or mine.counter != self._counter:
            self._beaten_ms = None
            self._fail("this node's own beat is not among those that were read")
            return
        self._membership.observe(beats, asked_ms, self._clock.monotonic_ms())
        self._tell(frozen=False)
        self._on_round()

    async def _beat(self, incarnation: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._beaten_ms is None or now_ms - self._beaten_ms >= BEAT_MS:
            self._counter += 1
            self._beaten_ms, note = now_ms, self.note
            await self._coordinator.beat(incarnation, self._counter, encode_note(note))
            shown = self._noticed if self._written is None else self._written[0]
            if note != shown:
                self._written = (note, self._clock.monotonic_ms())

    def _fail(self, error: str) -> None:
        self._membership.begin_anew(self._clock.monotonic_ms())
        self._tell(frozen=True, error=error)
        self._on_round()

    def _tell(self, *, frozen: bool, error: str = "") -> None:
        if frozen != self._frozen:
            self._frozen = frozen
            self._events.emit(MembershipFrozen(frozen=frozen, error=error))
