"""How many webhooks of one host may be claimed at a time; the others wait unclaimed, so they hold no slot.

Without it, two thousand runs for a host that hangs would fill every slot, claimed and waiting for their turn,
and no other host would be called. A host has `limit` places, shared between the lanes like the slots of an
executor, so its CRITICAL runs also find room while LOW ones hang. Fewer when it pushes back (`domain.aimd`), one
or none when it answers nothing or asks to be left alone (`domain.breaker`), and no more per second than its rate,
where one is set (`domain.rate`). Handlers have places here only when they have a rate.

What waits is released when attempts end, and by `run` when time has passed: a pause is over, a rate allows more, a
deadline is over (its claim is what skips the run).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, TIMER, Rows, empty
from tickwheel.domain.concurrency import RunKey
from tickwheel.domain.job import Spec, Target, TargetType
from tickwheel.domain.rate import RateLimit
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import EventSink, HostClosed, HostOpened
from tickwheel.ports.executor import Work
from tickwheel.ports.queue import handler_route
from tickwheel.services.alarm import Alarm
from tickwheel.services.gates.evidence import Ended, Evidence, read_evidence
from tickwheel.services.gates.host import Change, Ends, Host
from tickwheel.services.gates.hosts import Hosts
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK, ReadyRing, kinds_of

LOOK_STEP_MS: Final = 5
LONGEST_SLEEP_MS: Final = 1_000
RELOOK_MS: Final = 5_000
"""What was promised a place and never came (its shard has left) is replaced after so long."""
PROBE_RELOOK_MS: Final = 1_000


class HostGate:
    """Counts the runs in flight per target. Those that find no place are kept here, as TIMER rows."""

    def __init__(
        self,
        *,
        limit: int,
        ready: ReadyRing,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        host_rates: Mapping[str, RateLimit] | None = None,
        handler_rates: Mapping[str, RateLimit] | None = None,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._ready, self._clock = ready, clock
        self._randomness, self._events = randomness, events
        self.hosts = Hosts(limit, host_rates or {}, handler_rates or {}, share)
        self._rates_handlers = bool(handler_rates)
        self._alarm = Alarm(clock)
        self._asleep_until_ms = 0
        self.held_count = 0

    def __len__(self) -> int:
        return self.held_count

    def admit(
        self,
        timers: Rows,
        specs: Sequence[Spec | None],
        left_out: Iterable[int],
        skips: Sequence[int] = (),
    ) -> list[int]:
        """Give each run a place at its target; the rows that found none, which are held from now on.

        `skips` are rows whose claim starts nothing: they get a place in any case.
        """
        if not self._rates_handlers and not (kinds_of(timers) == KIND_WEBHOOK).any():
            return []
        skipped, held, by_host = set(left_out), list[int](), dict[tuple[str, int], list[int]]()
        passing = set(skips)
        lanes = (timers["flags"] & FLAG_LANE_MASK).tolist()
        for number, spec in enumerate(specs):
            if spec is None or number in skipped or (name := self._name_of(spec.target)) is None:
                continue
            if number in passing:
                self.hosts.get(name, _kind_of(spec.target)).slots.take(lanes[number], 1)
                continue
            by_host.setdefault((name, _kind_of(spec.target)), []).append(number)
        for (name, kind), numbers in by_host.items():
            host = self.hosts.get(name, kind)
            placeless = self._enter(host, timers, numbers, lanes)
            if placeless:
                self._hold(host, timers[placeless], [specs[number] for number in placeless])
                held += placeless
        self.held_count += len(held)
        return sorted(held)

    def leave(self, works: Sequence[Work | None], ended: Ended | None = None) -> None:
        """These attempts of one kind have ended: their places go to what waits. `ended` tells how, if known."""
        if not self._rates_handlers and works and (first := works[0]) is not None and _is_handler(first.target):
            return  # they have no places here
        now_ms = self._clock.monotonic_ms()
        evidence = None if ended is None else read_evidence(ended.rows, ended.outcomes)
        for name, numbers in self._by_host(works).items():
            host = self.hosts.known[name]
            if ended is not None and host.waiting.kind == KIND_WEBHOOK:
                self._learn(host, numbers, ended, evidence, now_ms)
            for lane, count in Counter([work.lane for n in numbers if (work := works[n]) is not None]).items():
                host.slots.release(lane, count)
            host.note_ended(len(numbers), now_ms)
            self._let_go(host, now_ms)
            self.hosts.forget(host, now_ms)

    def give_back(self, timers: Rows, specs: Sequence[Spec | None], unstarted: Sequence[int]) -> None:
        """These rows of a batch were admitted and then not started."""
        lanes = (timers["flags"] & FLAG_LANE_MASK).tolist()
        places = Counter(
            (name, lanes[number])
            for number in unstarted
            if (spec := specs[number]) is not None and (name := self._name_of(spec.target)) is not None
        )
        now_ms = self._clock.monotonic_ms()
        for (name, lane), count in places.items():
            host = self.hosts.known[name]
            host.slots.release(lane, count)
        for host in [self.hosts.known[name] for name in {name for name, _ in places}]:
            if host.probe is not None and host.probe in [_key(timers, number) for number in unstarted]:
                host.probe = None
            self._let_go(host, now_ms)
            self.hosts.forget(host, now_ms)

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or are loaded anew: else their runs would be promised places, and never come."""
        now_ms, gone = self._clock.monotonic_ms(), np.asarray(shards, dtype=np.int64)
        for host in list(self.hosts.with_waiting()):
            count = host.waiting.drop(gone)
            if count:
                self.held_count -= count
                host.promised = 0
                self._let_go(host, now_ms)
                self._plan_look(host)
                self.hosts.forget(host, now_ms)

    def rows(self) -> Rows:
        """All that is held."""
        held = [host.waiting.ring.rows() for host in self.hosts.with_waiting()]
        return np.concatenate(held) if held else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that is held; None when nothing is."""
        lowest = (host.waiting.ring.lowest_due_ms() for host in self.hosts.with_waiting())
        return min((due_ms for due_ms in lowest if due_ms is not None), default=None)

    def waits_for(self, target: Target) -> str | None:
        """Why runs of this target wait here, in one word; None when none does."""
        name = self._name_of(target)
        host = None if name is None else self.hosts.known.get(name)
        return None if host is None or not len(host.waiting) else host.why(self._clock.monotonic_ms())

    async def run(self, on_due: Callable[[], None]) -> None:
        """Release what time alone makes room for, for ever."""
        while True:
            now_ms = self._clock.monotonic_ms()
            self.hosts.forget_idle(now_ms)
            next_ms = min(self.hosts.looks.values(), default=now_ms + LONGEST_SLEEP_MS)
            length_ms = min(max(LOOK_STEP_MS, next_ms - now_ms), LONGEST_SLEEP_MS)
            self._asleep_until_ms = now_ms + length_ms
            await self._alarm.sleep_ms(length_ms)
            if self._look_at_due():
                on_due()

    def _name_of(self, target: Target) -> str | None:
        """What a target is counted under; None where it isn't. No host looks like the route of a handler."""
        if target.type is TargetType.HTTP_WEBHOOK:
            return host_of(target.endpoint)
        return (
            handler_route(target.name) if self._rates_handlers and self.hosts.rates_handler(target.name) else None
        )

    def _enter(self, host: Host, timers: Rows, numbers: Sequence[int], lanes: Sequence[int]) -> list[int]:
        """Give these rows of a batch places at their host, in order; those that find none."""
        now_ms = self._clock.monotonic_ms()
        host.promised = max(0, host.promised - len(numbers))
        host.resize(now_ms)
        lane = lanes[numbers[0]]
        if all(lanes[number] == lane for number in numbers):
            room = min(len(numbers), host.room(lane, now_ms))
            host.take(lane, room, now_ms)
            if room and not host.breaker.closed:
                host.probe = _key(timers, numbers[0])
            return list(numbers[room:])
        placeless = []
        for number in numbers:
            lane = lanes[number]
            if host.room(lane, now_ms) > 0:
                host.take(lane, 1, now_ms)
                if not host.breaker.closed:
                    host.probe = _key(timers, number)
            else:
                placeless.append(number)
        return placeless

    def _hold(self, host: Host, timers: Rows, specs: Sequence[Spec | None]) -> None:
        deadlines = [None if spec is None else spec.deadline_ms for spec in specs]
        if any(deadline is not None for deadline in deadlines):
            # A claim skips what has never begun once its deadline is past. Follow-ups may have begun.
            scheduled, gens = timers["scheduled_ms"].tolist(), timers["gen"].tolist()
            deadlines = [
                None if length_ms is None or gen <= 0 else at_ms + length_ms + 1
                for length_ms, at_ms, gen in zip(deadlines, scheduled, gens, strict=True)
            ]
        host.waiting.push(timers, deadlines)
        self._plan_look(host)

    def _by_host(self, works: Sequence[Work | None]) -> dict[str, list[int]]:
        by_host: dict[str, list[int]] = {}
        target, numbers = None, list[int]()  # of the work before: jobs of one spec have their target in common
        for number, work in enumerate(works):
            if work is None:
                continue
            if work.target is not target:
                target = work.target
                name = self._name_of(target)
                numbers = [] if name is None else by_host.setdefault(name, [])
            numbers.append(number)
        return by_host

    def _learn(
        self, host: Host, numbers: Sequence[int], ended: Ended, evidence: Evidence | None, now_ms: int
    ) -> None:
        if evidence is None or evidence.good[numbers].all():
            change = host.learn_good(ended.began_mono_ms[numbers], now_ms)
        else:
            ends = _ends_of(numbers, evidence, ended)
            change = host.learn(ends, now_ms, self._randomness.fraction())
        if change is not None:
            self._tell(host, change, now_ms)

    def _tell(self, host: Host, change: Change, now_ms: int) -> None:
        breaker, name, waiting = host.breaker, shown(host.name), len(host.waiting)
        if change.opened:
            self.hosts.opened[breaker.cause] += 1
            self._events.emit(
                HostOpened(
                    host=name, cause=host.why(now_ms), pause_ms=breaker.until_ms - now_ms, waiting_count=waiting
                )
            )
        else:
            open_ms = now_ms - breaker.opened_ms
            self._events.emit(HostClosed(host=name, open_ms=open_ms, waiting_count=waiting))

    def _let_go(self, host: Host, now_ms: int) -> bool:
        """Put as many of the waiting runs back into the ready ring as there are places for them."""
        waiting = host.waiting
        if not len(waiting):
            return False
        host.resize(now_ms)
        if not host.used:
            host.promised = 0
        released = False
        for lane in host.slots.order(waiting.ring.oldest_due_ms(waiting.kind), self._clock.now_ms()):
            count = min(waiting.count(lane), host.room(lane, now_ms) - host.promised)
            if count > 0:
                self._ready.push_back(waiting.take(lane, count))
                host.promised += count
                self.held_count -= count
                released = True
        self._plan_look(host)
        return released

    def _look_at_due(self) -> bool:
        now_ms, released = self._clock.monotonic_ms(), False
        for name in [name for name, at_ms in self.hosts.looks.items() if at_ms <= now_ms]:
            host = self.hosts.known[name]
            expired = host.waiting.take_expired(self._clock.now_ms())
            if len(expired):
                self._ready.push_back(expired)
                self.held_count -= len(expired)
                released = True
            if not host.breaker.closed and not host.used:
                host.probe = None
            released = self._let_go(host, now_ms) or released
            self._plan_look(host)
        return released

    def _plan_look(self, host: Host) -> None:
        if not len(host.waiting):
            self.hosts.looks.pop(host.name, None)
            return
        now_ms = self._clock.monotonic_ms()
        at_ms = host.next_look_ms(now_ms, RELOOK_MS, PROBE_RELOOK_MS)
        deadline_ms = host.waiting.earliest_deadline_ms
        if deadline_ms is not None:
            at_ms = min(at_ms, now_ms + max(LOOK_STEP_MS, deadline_ms - self._clock.now_ms()))
        self.hosts.looks[host.name] = at_ms
        if at_ms < self._asleep_until_ms:
            self._asleep_until_ms = at_ms
            self._alarm.ring()


def _ends_of(numbers: Sequence[int], evidence: Evidence, ended: Ended) -> Ends:
    """Those of one host."""
    retry_after = [
        outcome.retry_after_ms
        for n in numbers
        if (outcome := ended.outcomes[n]).retry_after_ms and evidence.pushed[n]
    ]
    return Ends(
        ended.began_mono_ms[numbers].tolist(),
        evidence.good[numbers].tolist(),
        evidence.answered[numbers].tolist(),
        evidence.failed[numbers].tolist(),
        evidence.pushed[numbers].tolist(),
        max((length for length in retry_after if length is not None), default=None),
    )


def _key(timers: Rows, number: int) -> RunKey:
    return timers["job_id"][number].tobytes(), int(timers["scheduled_ms"][number])


def _kind_of(target: Target) -> int:
    return KIND_WEBHOOK if target.type is TargetType.HTTP_WEBHOOK else KIND_HANDLER


def shown(name: str) -> str:
    """A host for people: without user and password."""
    return name.rpartition("@")[2]


@lru_cache(maxsize=4_096)
def host_of(endpoint: str) -> str:
    """Host and port of a URL, as a name to count under. Takes any text: one odd endpoint must not stop a batch."""
    return endpoint.partition("//")[2].partition("/")[0].partition("?")[0].lower()


def _is_handler(target: Target) -> bool:
    return target.type is TargetType.HANDLER
