"""Timers whose tenant is disabled, or has begun as many runs in this second as it may: they wait, unclaimed.

**Per second.** A limit counts by seconds of the clock, as it does where jobs are made: so what was accepted for
one second starts in that second, all at once if need be. What comes on top (retries, schedules, jobs of many
nodes) waits here in due order and goes in the next seconds. In a cluster a node has as much of a limit as it has
of the shards. A run counts when it is won; a claim that wins nothing gives its place back.

**Disabled.** There may be millions, for weeks, so they are dropped: the store has them, and the floors of
`Unserved` stand for them. The safety net brings them up again, and at once when the tenant is enabled. The same
goes for what is beyond `HELD_EACH`, so that a tenant far above its limit takes no memory from the others.

None is held whose run is in flight: nobody would watch the run of an owner that died.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, ClaimAction, ClaimVerdict, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.quotas import NOTHING_SET, LimitName, TenantSettings
from tickwheel.domain.run import IN_FLIGHT
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Ledger, WorkDefinition
from tickwheel.services.alarm import Alarm
from tickwheel.services.ownership.unresolved import Unserved
from tickwheel.services.quotas import DISABLED
from tickwheel.services.ready import ReadyRing
from tickwheel.services.tenants import Tenants

HELD_EACH: Final = 5_000
"""Of one tenant, and"""
HELD_MOST: Final = 20_000
"""of all of them: the safety net compares all that is held with what it reads."""
IDLE_MS: Final = 60_000
SECOND_MS: Final = 1_000


class _Waiting:
    """Timers of one tenant, in due order. `dropped`: there are more in the store."""

    __slots__ = ("chunks", "count", "dropped")

    def __init__(self) -> None:
        self.chunks: deque[Rows] = deque()
        self.count = 0
        self.dropped = False

    def hold(self, timers: Rows) -> None:
        if self.chunks and timers["due_ms"][0] < self.chunks[0]["due_ms"][0]:
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


class TenantGate:
    """Holds nothing back before `follow`. `share`: this node's part of the limits."""

    def __init__(
        self,
        ledger: Ledger,
        ready: ReadyRing,
        unserved: Unserved,
        clock: Clock,
        *,
        on_due: Callable[[], None],
        on_dropped_wanted: Callable[[], None],
        on_enabled: Callable[[], None],
        share: Callable[[], float],
    ) -> None:
        self._ledger, self._ready, self._unserved, self._clock = ledger, ready, unserved, clock
        self._on_due, self._read_on, self._read_again = on_due, on_dropped_wanted, on_enabled
        self._share = share
        self._tenants: Tenants | None = None
        self.guards = False
        """Whether anybody is disabled or has a limit per second."""
        self._waiting: dict[str, _Waiting] = {}
        self._second = 0
        self._used: Counter[str] = Counter()  # of this second, by tenant
        self._rules: tuple[TenantSettings, Mapping[str, TenantSettings]] | None = None
        self._dropped_disabled = False
        self._alarm = Alarm(clock)
        self.held_count = 0

    def __len__(self) -> int:
        return self.held_count

    def follow(self, tenants: Tenants) -> None:
        """Go by these records from now on."""
        self._tenants = tenants
        tenants.when_changed(self._settle_rules)

    def rows(self) -> Rows:
        """All that is held."""
        held = [chunk for one in self._waiting.values() for chunk in one.chunks]
        return np.concatenate(held) if held else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that is held; None when nothing is."""
        chunks = (chunk for one in self._waiting.values() for chunk in one.chunks)
        return min((int(chunk["due_ms"].min()) for chunk in chunks), default=None)

    def held(self, most: int) -> list[tuple[str, int | None, str]]:
        """So many tenants at most of which something waits or would wait, since when if that is known, and why."""
        rules = {} if self._rules is None else self._rules[1]
        disabled = [(tenant_id, None, DISABLED) for tenant_id, one in rules.items() if one.disabled]
        limited = [
            (tenant_id, int(one.chunks[0]["due_ms"][0]), LimitName.DUE_PER_SECOND.value)
            for tenant_id, one in self._waiting.items()
            if one.chunks
        ]
        return [*disabled, *limited][:most]

    def waits_for(self, tenant_id: str) -> str | None:
        """Why due runs of the tenant wait here, in one word; None when none does."""
        if self._settings_of(tenant_id).disabled:
            return DISABLED
        return LimitName.DUE_PER_SECOND.value if tenant_id in self._waiting else None

    async def admit(self, timers: Rows, claims: Rows, works: Sequence[WorkDefinition | None]) -> Bools:
        """Which of these planned timers are to be claimed now; the others are held or dropped from now on."""
        goes: Bools = np.ones(len(timers), dtype=np.bool_)
        kept_back = self._kept_back(timers, claims, works)
        numbers = [number for some in kept_back.values() for number in some]
        if not numbers:
            return goes
        keys = [(timers["job_id"][n].tobytes(), int(timers["scheduled_ms"][n])) for n in numbers]
        runs = await self._ledger.find_runs(keys)
        flying = {n for n, run in zip(numbers, runs, strict=True) if run is not None and run.state in IN_FLIGHT}
        for tenant_id, some in kept_back.items():
            held = [number for number in some if number not in flying]
            if held:
                goes[held] = False
                self._hold(tenant_id, timers[held])
        return goes

    def _kept_back(
        self, timers: Rows, claims: Rows, works: Sequence[WorkDefinition | None]
    ) -> dict[str, list[int]]:
        """By tenant: what may not start now."""
        if not self.guards:
            return {}
        self._turn_page()
        skips = claims["action"] == ClaimAction.SKIP
        if not skips.any() and self._all_fit(works):
            return {}
        share, found = self._share(), dict[str, list[int]]()
        for number in np.argsort(timers["due_ms"], kind="stable").tolist():
            work = works[number]
            if work is None:
                continue
            settings = self._settings_of(work.tenant_id)
            most = settings.limits.due_per_second
            if settings.disabled:
                found.setdefault(work.tenant_id, []).append(number)
            elif most is None or skips[number]:
                continue
            elif self._used[work.tenant_id] < _part(most, share):
                self._used[work.tenant_id] += 1
            else:
                found.setdefault(work.tenant_id, []).append(number)
        return found

    def _all_fit(self, works: Sequence[WorkDefinition | None]) -> bool:
        """Whether all of them may start now, as a rule; then they are counted."""
        share, limited = self._share(), dict[str, int]()
        for tenant_id, count in Counter(work.tenant_id for work in works if work is not None).items():
            settings = self._settings_of(tenant_id)
            most = settings.limits.due_per_second
            if settings.disabled or (most is not None and self._used[tenant_id] + count > _part(most, share)):
                return False
            if most is not None:
                limited[tenant_id] = count
        self._used.update(limited)
        return True

    def answered(self, claims: Rows, works: Sequence[WorkDefinition | None], answers: Rows) -> None:
        """What became of claims that were admitted."""
        if not self._used:
            return
        unused = (answers["verdict"] != ClaimVerdict.WON) & (claims["action"] != ClaimAction.SKIP)
        self.give_back(works, np.flatnonzero(unused).tolist())

    def give_back(self, works: Sequence[WorkDefinition | None], numbers: Sequence[int]) -> None:
        """These were admitted and start nothing now."""
        for number in numbers:
            work = works[number]
            if work is not None and self._used[work.tenant_id] > 0:
                self._used[work.tenant_id] -= 1

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or are loaded anew."""
        gone = np.asarray(shards, dtype=np.int64)
        for tenant_id, one in list(self._waiting.items()):
            held = one.take(one.count)
            kept = held[~np.isin(shards_of(held["job_id"]), gone)] if len(held) else held
            self.held_count -= len(held) - len(kept)
            if len(kept):
                one.hold(kept)
            else:
                self._done_with(tenant_id)

    async def run(self) -> None:
        """Let go what the next second has room for, for ever."""
        while True:
            if not self._waiting:
                await self._alarm.sleep_ms(IDLE_MS)
            await self._clock.sleep_ms(max(1, SECOND_MS - self._clock.now_ms() % SECOND_MS))
            self.let_go()

    def let_go(self) -> None:
        """Put as many back into the ready ring as may start in this second."""
        self._turn_page()
        share, released = self._share(), False
        for tenant_id, one in list(self._waiting.items()):
            room = self._room(tenant_id, share, one.count)
            if room:
                timers = one.take(room)
                self.held_count -= len(timers)
                self._ready.push_back(timers)
                released = True
            if not one.count:
                self._done_with(tenant_id)
        if released:
            self._on_due()

    def _room(self, tenant_id: str, share: float, wanted: int) -> int:
        settings = self._settings_of(tenant_id)
        most = None if settings.disabled else settings.limits.due_per_second
        return wanted if most is None else max(0, _part(most, share) - self._used[tenant_id])

    def _hold(self, tenant_id: str, timers: Rows) -> None:
        if self._settings_of(tenant_id).disabled:
            self._unserved.note_held(timers)
            self._dropped_disabled = True
            return
        one = self._waiting.get(tenant_id) or self._start_waiting(tenant_id)
        room = min(HELD_EACH - one.count, HELD_MOST - self.held_count)
        if one.dropped or len(timers) > room:
            self._unserved.note_held(timers)
            one.dropped = True
            return
        one.hold(timers)
        self.held_count += len(timers)

    def _settings_of(self, tenant_id: str) -> TenantSettings:
        return NOTHING_SET if self._tenants is None else self._tenants.of(tenant_id)

    def _start_waiting(self, tenant_id: str) -> _Waiting:
        one = self._waiting[tenant_id] = _Waiting()
        self._alarm.ring()
        return one

    def _done_with(self, tenant_id: str) -> None:
        if self._waiting.pop(tenant_id).dropped:
            self._read_on()

    def _turn_page(self) -> None:
        second = self._clock.now_ms() // SECOND_MS
        if second != self._second:
            self._second = second
            self._used.clear()

    def _settle_rules(self) -> None:
        if self._tenants is None:
            return
        rules = self._tenants.defaults, dict(self._tenants.known)
        if rules == self._rules:
            return
        self._rules = rules
        self.guards = any(
            one.disabled or one.limits.due_per_second is not None for one in (rules[0], *rules[1].values())
        )
        self.let_go()
        if self._dropped_disabled:
            self._dropped_disabled = False
            self._read_again()


def _part(most: int, share: float) -> int:
    return max(1, int(most * share))
