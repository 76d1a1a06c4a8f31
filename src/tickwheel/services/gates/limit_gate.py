"""Timers whose jobs are at a limit of concurrency wait here: unclaimed, holding no slot of anything.

The store decides who may start, exactly (`ClaimVerdict.LIMITED`); this only sees to it that it is asked at the
right time and no more often. Timers with the same limits are a *crowd*. While a crowd waits, its newcomers queue
up behind it unasked, so a million runs for one key cost one look each. Timers are let go, in due order

- one for each run of theirs that has ended here, once that is committed, and
- one per crowd each `POLL_MS`, for slots that are freed elsewhere: by other nodes, by cancels, by the reaper. As
  long as it wins, twice as many follow each time, up to the limit.

What is let go is claimed like anything else; with the answer LIMITED it is back at the head of its crowd. Crowds
that do not share a count never wait for one another. All of it is a guess about slots: whatever is lost here, the
next poll makes good.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, ClaimAction, ClaimVerdict, Ints, Rows, empty
from tickwheel.domain.concurrency import Counted, counted, whole_tenant
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.job import Spec
from tickwheel.domain.run import IN_FLIGHT
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.store import Ledger, WorkDefinition
from tickwheel.services.alarm import Alarm
from tickwheel.services.ready import ReadyRing

POLL_MS: Final = 200
JITTER_MS: Final = 40
IDLE_MS: Final = 60_000
POLLED_CROWDS: Final = 500
"""At most so many crowds per poll, in turn."""
LOOKED_AT: Final = 64
"""Among so many crowds of a count the one that has waited longest is looked for."""
FLYING_LIMIT: Final = 100_000
"""Of so many runs in flight it is known what their ends free; for others there is the poll."""

Limits = tuple[Counted, ...]


class _Crowd:
    """Timers with the same limits."""

    __slots__ = ("burst", "chunks", "count", "limits", "probes", "promised")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.chunks: deque[Rows] = deque()
        self.count = 0
        self.promised = 0  # let go, not seen again yet
        self.probes, self.burst = False, 1

    @property
    def most(self) -> int:
        """How many could start at once at best."""
        return min(limit.limit for limit in self.limits)

    @property
    def head_due_ms(self) -> int:
        return int(self.chunks[0]["due_ms"][0])

    def hold(self, timers: Rows, *, at_head: bool = False) -> None:
        if at_head or (self.chunks and timers["due_ms"][-1] < self.head_due_ms):
            self.chunks.appendleft(timers)
        else:
            self.chunks.append(timers)
        self.count += len(timers)

    def take(self, count: int) -> Rows:
        taken = []
        while self.chunks and count > 0:
            chunk = self.chunks.popleft()
            if len(chunk) > count:
                self.chunks.appendleft(chunk[count:])
                chunk = chunk[:count]
            taken.append(chunk)
            count -= len(chunk)
            self.count -= len(chunk)
        return np.concatenate(taken) if taken else empty(TIMER)


class LimitGate:
    """What waits for slots of limits of concurrency."""

    def __init__(
        self,
        ledger: Ledger,
        ready: ReadyRing,
        clock: Clock,
        randomness: Randomness,
        *,
        on_due: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._ready, self._clock, self._randomness, self._on_due = ready, clock, randomness, on_due
        self._crowds: OrderedDict[Limits, _Crowd] = OrderedDict()
        self._of: dict[str, dict[Limits, _Crowd]] = {}  # by what is counted
        self._flying: dict[tuple[bytes, int], Limits] = {}  # runs that hold slots, started here
        self._alarm = Alarm(clock)
        self.held_count = 0

    def __len__(self) -> int:
        return self.held_count

    def rows(self) -> Rows:
        """All that is held."""
        held = [chunk for crowd in self._crowds.values() for chunk in crowd.chunks]
        return np.concatenate(held) if held else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that is held; None when nothing is."""
        chunks = (chunk for crowd in self._crowds.values() for chunk in crowd.chunks)
        return min((int(chunk["due_ms"].min()) for chunk in chunks), default=None)

    def waits_for(self, tenant_id: str) -> str | None:
        """Whether runs wait here because their whole tenant is at its limit, in one word."""
        return "concurrency" if whole_tenant(tenant_id) in self._of else None

    def held(self, most: int) -> list[tuple[str, int]]:
        """What is counted by limits that something waits for, and since when; of so many crowds at most."""
        since: dict[str, int] = {}
        for crowd in islice(self._crowds.values(), most):
            for limit in crowd.limits:
                since[limit.name] = min(crowd.head_due_ms, since.get(limit.name, crowd.head_due_ms))
        return list(since.items())

    async def admit(
        self,
        timers: Rows,
        claims: Rows,
        works: Sequence[WorkDefinition | None],
        specs: Sequence[Spec | None],
    ) -> Bools:
        """Which of these planned timers are to be claimed now; the others are held from now on.

        None is held whose run is in flight: it would wait for the very slot that its run holds, and with it nobody
        would watch the run of an owner that died, or start one whose claim was not answered.
        """
        goes: Bools = np.ones(len(timers), dtype=np.bool_)
        surplus = self._surplus(timers, claims, works, specs)
        numbers = [number for some in surplus.values() for number in some]
        if not numbers:
            return goes
        keys = [(timers["job_id"][n].tobytes(), int(timers["scheduled_ms"][n])) for n in numbers]
        runs = await self._ledger.find_runs(keys)
        flying = {n for n, run in zip(numbers, runs, strict=True) if run is not None and run.state in IN_FLIGHT}
        for limits, some in surplus.items():
            held = [number for number in some if number not in flying]
            if held:
                goes[held] = False
                self._hold(limits, timers[held])
        return goes

    def _surplus(
        self,
        timers: Rows,
        claims: Rows,
        works: Sequence[WorkDefinition | None],
        specs: Sequence[Spec | None],
    ) -> dict[Limits, list[int]]:
        """Those that there is no use asking for now."""
        surplus = {}
        for limits, numbers in _by_limits(claims, works, specs).items():
            crowd = self._crowds.get(limits)
            room = min(limit.limit for limit in limits) if crowd is None else crowd.promised
            surplus[limits] = some = list(self._askable(limits, timers, claims, numbers))[room:]
            if crowd is not None:
                crowd.promised = max(0, crowd.promised - (len(numbers) - len(some)))
        return surplus

    def answered(
        self,
        timers: Rows,
        claims: Rows,
        works: Sequence[WorkDefinition | None],
        specs: Sequence[Spec | None],
        answers: Rows,
    ) -> None:
        """What became of claims that were admitted."""
        for limits, numbers in _by_limits(claims, works, specs).items():
            verdicts = answers["verdict"][numbers]
            refused = verdicts == ClaimVerdict.LIMITED
            won = verdicts == ClaimVerdict.WON
            for number in np.asarray(numbers)[won].tolist():
                self._note_flying(timers, number, limits)
            if refused.any():
                self._hold(limits, timers[np.asarray(numbers)[refused]], at_head=True)
            crowd = self._crowds.get(limits)
            if crowd is None:
                continue
            if refused.any():
                crowd.probes = False
            elif crowd.probes:
                crowd.burst = min(2 * crowd.burst, crowd.most)
                self._let_go(crowd, crowd.burst)
            elif not won.all():  # it has used no slot: the next one may
                self._let_go(crowd, int(np.count_nonzero(~won)))

    def committed(self, ends: Rows) -> None:
        """These ends of attempts (COMPLETION rows) are in the store: their slots are free."""
        if not self._flying:
            return
        freed: Counter[str] = Counter()
        keys = zip(ends["job_id"].tolist(), ends["scheduled_ms"].tolist(), strict=True)
        for key in keys:
            limits = self._flying.pop(key, None)
            if limits is not None:
                freed.update(limit.name for limit in limits)
        for name, count in freed.items():
            self._share_out(name, count)

    def look_anew(self) -> None:
        """Limits are others now: all that is held is to be asked for once."""
        for crowd in list(self._crowds.values()):
            crowd.promised = 0
            self._let_go(crowd, crowd.count)

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or are loaded anew."""
        gone = np.asarray(shards, dtype=np.int64)
        for crowd in list(self._crowds.values()):
            held = crowd.take(crowd.count)
            self.held_count -= len(held)
            kept = held[~np.isin(shards_of(held["job_id"]), gone)] if len(held) else held
            if len(kept):
                self._hold(crowd.limits, kept)
            else:
                self._drop(crowd)

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            pause_ms = POLL_MS + int((2 * self._randomness.fraction() - 1) * JITTER_MS)
            if not self._crowds:
                await self._alarm.sleep_ms(IDLE_MS)
            await self._clock.sleep_ms(pause_ms)
            self.poll()

    def poll(self) -> None:
        """Let one of each crowd go: a slot may have been freed elsewhere."""
        for limits in list(islice(self._crowds, POLLED_CROWDS)):
            crowd = self._crowds[limits]
            self._crowds.move_to_end(limits)
            crowd.promised = 0
            crowd.probes, crowd.burst = True, 1
            self._let_go(crowd, 1)

    def _askable(self, limits: Limits, timers: Rows, claims: Rows, numbers: Sequence[int]) -> Iterable[int]:
        """Those that need room here: not what is skipped, and not what the store may have to skip."""
        bounded = any(limit.max_waiting is not None for limit in limits)
        for number in numbers:
            skips = claims["action"][number] == ClaimAction.SKIP
            if not skips and not (bounded and timers["gen"][number] > 0):
                yield number

    def _hold(self, limits: Limits, timers: Rows, *, at_head: bool = False) -> None:
        crowd = self._crowds.get(limits)
        if crowd is None:
            crowd = self._crowds[limits] = _Crowd(limits)
            for limit in limits:
                self._of.setdefault(limit.name, {})[limits] = crowd
            self._alarm.ring()
        crowd.hold(timers, at_head=at_head)
        self.held_count += len(timers)

    def _drop(self, crowd: _Crowd) -> None:
        del self._crowds[crowd.limits]
        for limit in crowd.limits:
            others = self._of[limit.name]
            others.pop(crowd.limits, None)
            if not others:
                del self._of[limit.name]

    def _let_go(self, crowd: _Crowd, count: int) -> None:
        timers = crowd.take(count)
        self.held_count -= len(timers)
        crowd.promised += len(timers)
        if not crowd.count:
            self._drop(crowd)
        if len(timers):
            self._ready.push_back(timers)
            self._on_due()

    def _share_out(self, name: str, count: int) -> None:
        """So many slots of this count are free."""
        while count > 0 and (crowds := self._of.get(name)):
            longest = nsmallest(count, islice(crowds.values(), LOOKED_AT), key=lambda crowd: crowd.head_due_ms)
            share = -(-count // len(longest))
            for crowd in longest:
                given = min(share, count, crowd.count)
                count -= given
                self._let_go(crowd, given)

    def _note_flying(self, timers: Rows, number: int, limits: Limits) -> None:
        if len(self._flying) >= FLYING_LIMIT:
            del self._flying[next(iter(self._flying))]
        key = (timers["job_id"][number].tobytes(), int(timers["scheduled_ms"][number]))
        self._flying[key] = limits


def _by_limits(
    claims: Rows, works: Sequence[WorkDefinition | None], specs: Sequence[Spec | None]
) -> dict[Limits, list[int]]:
    """The numbers of the rows that have limits."""
    found: dict[Limits, list[int]] = {}
    numbers: Ints = np.flatnonzero(claims["limited"])
    tenant_limits = claims["tenant_limit"].tolist()
    for number in numbers.tolist():
        work, spec = works[number], specs[number]
        if work is not None and spec is not None:
            limits = counted(spec.concurrency, work.tenant_id, work.name, tenant_limits[number])
            found.setdefault(limits, []).append(number)
    return found
