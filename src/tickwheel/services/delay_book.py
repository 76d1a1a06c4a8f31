"""Which delays are open on this node, and which have ended: what is to be noted in the store.

Some come as events (a takeover, a store that can't be reached, handlers that nobody has), the others are looked
for by the watch: what waits at a gate, and since when. All of it is about crowds, never about single runs.

Crowds may come and go by the hundred each second, where thousands of keys have a limit of their own. So of those
that have no row yet only the longest get one at a time, and a row that is there is written again rarely.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from tickwheel.domain.delays import ALL_SHARDS, Delay, DelayKind, shards_text
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import Event, LoopFailed, MemberLost, RunsUnserved, ShardsTaken

KEPT_COUNT: Final = 500
"""So many may be open at most; others are not told of."""
NEW_COUNT: Final = 20
"""So many that are not in the store yet go there at a time, the longest of them."""
AGAIN_MS: Final = 10_000
"""How much longer one that goes on has become when it is written again."""
UNSERVED_MS: Final = 60_000
"""A handler is looked for again within it: what is not met for so long is served."""
_STORE_ERRORS: Final = ("StoreUnavailable", "OutcomeUnknown")


_CROWDS: Final = frozenset(
    {DelayKind.TARGET, DelayKind.LIMIT, DelayKind.TENANT, DelayKind.SLOTS, DelayKind.WORKER}
)

_Key = tuple[DelayKind, str, int]


class DelayBook:
    """An `EventSink`. `held` gives the shards of this node, so that a takeover can tell which it was about."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.node = clock, ""
        self.held: Callable[[], Iterable[int]] = tuple
        self._shards: frozenset[int] = frozenset()
        self._taken: frozenset[int] = frozenset()  # by the latest take, which several events may tell of
        self._lost: MemberLost | None = None
        self._lost_ms = self._takes = 0
        self._open: dict[tuple[DelayKind, str], Delay] = {}
        self._changed: dict[_Key, Delay] = {}
        self._lately: dict[_Key, Delay] = {}  # whatever the store has of them
        self._stored: dict[_Key, int] = {}  # until when those last that are in the store and go on
        self._of: dict[type, Callable[[Any], None]] = {
            LoopFailed: self._note_failure,
            MemberLost: self._note_lost,
            RunsUnserved: self._note_unserved,
            ShardsTaken: self._note_taken,
        }

    def emit(self, event: Event) -> None:
        """Note what the event says about delays; most say nothing."""
        note = self._of.get(type(event))
        if note is not None:
            note(event)

    def see(self, kind: DelayKind, subject: str, since_ms: int, detail: str = "") -> None:
        """Runs wait for this now, the first of them since then."""
        now_ms, key = self._clock.now_ms(), (kind, subject)
        known = self._open.get(key)
        if known is None:
            if len(self._open) >= KEPT_COUNT:
                return
            known = Delay(kind, subject, self.node, since_ms, now_ms, detail)
        self._open[key] = replace(known, until_ms=now_ms, detail=detail or known.detail)
        self._keep(self._open[key])

    def keep_only(self, kinds: Iterable[DelayKind], seen: Iterable[tuple[DelayKind, str]]) -> None:
        """Of these kinds nothing but this is open any more: the others have ended by now."""
        still, now_ms = set(seen), self._clock.now_ms()
        for key in [key for key in self._open if key[0] in kinds and key not in still]:
            self._keep(replace(self._open.pop(key), until_ms=now_ms))

    def note(self, delay: Delay) -> None:
        """One that is known from beginning to end."""
        self._keep(replace(delay, node=delay.node or self.node))

    def lately(self) -> list[Delay]:
        """Those of the last minute, whether they go on or not."""
        before_ms = self._clock.now_ms() - UNSERVED_MS
        self._lately = {key: one for key, one in self._lately.items() if one.until_ms >= before_ms}
        return list(self._lately.values())

    def take(self) -> list[Delay]:
        """What is to be stored now; `give_back` it where that fails. What goes on is met again in any case."""
        changed, self._changed = list(self._changed.values()), {}
        rare = [delay for delay in changed if delay.kind not in _CROWDS]
        crowds = [delay for delay in changed if delay.kind in _CROWDS]
        new = [delay for delay in crowds if _key_of(delay) not in self._stored]
        new.sort(key=lambda delay: delay.from_ms - delay.until_ms)
        known = [delay for delay in crowds if _key_of(delay) in self._stored and self._is_due(delay)]
        taken = [*rare, *new[:NEW_COUNT], *known]
        for delay in taken:
            if self._goes_on(delay):
                self._stored[_key_of(delay)] = delay.until_ms
            else:
                self._stored.pop(_key_of(delay), None)
        return taken

    def give_back(self, delays: Iterable[Delay]) -> None:
        """These are not in the store."""
        for delay in delays:
            self._stored.pop(_key_of(delay), None)
            if _key_of(delay) not in self._changed:
                self._keep(delay)

    def _is_due(self, delay: Delay) -> bool:
        return not self._goes_on(delay) or delay.until_ms - self._stored[_key_of(delay)] >= AGAIN_MS

    def _goes_on(self, delay: Delay) -> bool:
        known = self._open.get((delay.kind, delay.subject))
        return known is not None and known.from_ms == delay.from_ms

    def end_old(self) -> None:
        """Those that are told of by events only, and were not for a while, are over as they stand."""
        before_ms = self._clock.now_ms() - UNSERVED_MS
        told = (DelayKind.STORE, DelayKind.WORKER)
        for key in [key for key, one in self._open.items() if key[0] in told and one.until_ms < before_ms]:
            self._keep(self._open.pop(key))

    def look_at_shards(self) -> None:
        """Learn which shards are held, so that those of the next take are known by what they are more."""
        self._shards = frozenset(self.held())

    def _keep(self, delay: Delay) -> None:
        key = _key_of(delay)
        for kept in (self._lately, self._changed):
            if key in kept or len(kept) < 2 * KEPT_COUNT:
                kept[key] = delay

    def _note_failure(self, event: LoopFailed) -> None:
        if event.error.startswith(_STORE_ERRORS):
            now_ms = self._clock.now_ms()
            self.see(DelayKind.STORE, event.loop, now_ms)
            key = DelayKind.STORE, event.loop
            if key in self._open:
                self._open[key] = replace(self._open[key], until_ms=now_ms + event.retry_in_ms)
                self._keep(self._open[key])

    def _note_lost(self, event: MemberLost) -> None:
        if event.fired and (self._lost is None or self._lost.incarnation != event.incarnation):
            self._lost, self._lost_ms = event, self._clock.now_ms() - event.silent_ms
            self._takes = 0

    def _note_unserved(self, event: RunsUnserved) -> None:
        for name in event.counts:
            self.see(DelayKind.WORKER, name, self._clock.now_ms())

    def _note_taken(self, event: ShardsTaken) -> None:
        shards = frozenset(self.held())
        self._taken, self._shards = shards - self._shards or self._taken, shards
        if event.cause != "takeover" or self._lost is None:
            return
        detail = "proved" if self._lost.proved else "silent"
        now_ms, taken = self._clock.now_ms(), shards_text(self._taken) if self._taken else ALL_SHARDS
        from_ms = self._lost_ms + self._takes  # its shards may be taken bit by bit; each is a delay of its own
        self._takes += 1
        self._keep(Delay(DelayKind.TAKEOVER, self._lost.incarnation, self.node, from_ms, now_ms, detail, taken))


def _key_of(delay: Delay) -> _Key:
    return delay.kind, delay.subject, delay.from_ms
