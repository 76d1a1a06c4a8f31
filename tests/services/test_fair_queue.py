"""Who gets the next slots of a lane: shares by slot-time, whatever waits and however long runs are."""

import heapq
from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.domain.columns import FLAG_BUCKET_SHIFT, FLAG_HANDLER, TIMER, Rows, empty
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK, ReadyRing
from tickwheel.services.shares import COMPANY_MS, FEW_MS, FreeSlots

LANE = 2


def timers(bucket: int, count: int, *, first: int = 0, lane: int = LANE, kind: int = KIND_HANDLER) -> Rows:
    """Due one after another, from `first` on."""
    rows = empty(TIMER, count)
    rows["due_ms"] = rows["scheduled_ms"] = first + np.arange(count)
    rows["flags"] = bucket << FLAG_BUCKET_SHIFT | lane | (FLAG_HANDLER if kind == KIND_HANDLER else 0)
    return rows


def mixed(*parts: Rows) -> Rows:
    rows = np.concatenate(parts)
    return rows[np.argsort(rows["due_ms"], kind="stable")]


def buckets(rows: Rows) -> list[int]:
    found: list[int] = (rows["flags"] >> FLAG_BUCKET_SHIFT).tolist()
    return found


def taken(ring: ReadyRing, limit: int, slots: FreeSlots | None = None) -> Counter[int]:
    return Counter(buckets(ring.take(KIND_HANDLER, LANE, limit, slots)))


class Executor:
    """Slots on virtual time: a run of a bucket takes as long as its bucket's runs do."""

    def __init__(self, ring: ReadyRing, slots: int, takes_ms: dict[int, int], *, others_seen: bool = True) -> None:
        self.ring, self.slots, self.takes_ms = ring, slots, takes_ms
        self.now_ms = COMPANY_MS if others_seen else 0
        self.running: list[tuple[int, int, int]] = []  # ends, bucket, begun
        self.slot_ms: Counter[int] = Counter()
        self.started: Counter[int] = Counter()

    def step(self) -> None:
        """Fill the free slots; go to where the next run ends."""
        free = self.slots - len(self.running)
        held = Counter(bucket for _, bucket, _ in self.running)
        by_bucket = np.bincount(list(held.elements()), minlength=2048)
        shared = FreeSlots(free, self.now_ms, lambda: by_bucket)
        for bucket in buckets(self.ring.take(KIND_HANDLER, LANE, free, shared)):
            heapq.heappush(self.running, (self.now_ms + self.takes_ms[bucket], bucket, self.now_ms))
            self.started[bucket] += 1
        self.now_ms = self.running[0][0]
        ended = []
        while self.running and self.running[0][0] <= self.now_ms:
            ended.append(heapq.heappop(self.running))
        for _, bucket, begun_ms in ended:
            self.slot_ms[bucket] += self.now_ms - begun_ms
        flags = np.array([bucket << 4 | LANE | FLAG_HANDLER for _, bucket, _ in ended], np.uint16)
        took_ms = np.array([end - begin for end, _, begin in ended])
        self.ring.note_ended(KIND_HANDLER, flags, took_ms)

    def share(self, bucket: int) -> float:
        return self.slot_ms[bucket] / self.slot_ms.total()


@pytest.mark.pitfall(62)
@pytest.mark.parametrize("slots", [1, 3, 40])
def test_shares_of_slot_time_follow_the_weights_however_long_runs_are(slots: int) -> None:
    ring = ReadyRing()
    ring.set_weight(1, 4)
    executor = Executor(ring, slots, {1: 10, 2: 1_000})
    ring.push(timers(1, 200_000))
    ring.push(timers(2, 2_000))
    while executor.now_ms < COMPANY_MS + 60_000:
        executor.step()
        if executor.now_ms < COMPANY_MS + 3_000:
            executor.slot_ms.clear()  # until then the costs are learned
    assert executor.share(1) == pytest.approx(0.8, abs=0.05)
    assert executor.started[1] > 20 * executor.started[2]


def test_without_a_weight_two_tenants_share_evenly_and_a_third_gets_its_third() -> None:
    ring = ReadyRing()
    executor = Executor(ring, 30, {1: 50, 2: 50, 3: 50})
    ring.push(timers(1, 50_000))
    ring.push(timers(2, 50_000))
    for _ in range(200):
        executor.step()
    assert executor.share(1) == pytest.approx(1 / 2, abs=0.03)
    ring.push(timers(3, 50_000))
    executor.slot_ms.clear()
    for _ in range(200):
        executor.step()
    assert [executor.share(n) for n in (1, 2, 3)] == pytest.approx([1 / 3] * 3, abs=0.03)


def test_what_a_tenant_does_not_need_goes_to_the_others() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 1_000), timers(2, 10), timers(3, 1_000)))
    assert taken(ring, 110) == {1: 50, 2: 10, 3: 50}


def test_whoever_had_nothing_to_do_gets_no_credit_for_it() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 10_000), timers(2, 5_000)))
    for _ in range(100):
        taken(ring, 100)
    assert ring.count(KIND_HANDLER, LANE) == 5_000
    ring.push(timers(2, 4_000))
    ring.push(timers(3, 5_000))  # the first time
    assert taken(ring, 300) == {1: 100, 2: 100, 3: 100}


def test_a_flood_does_not_keep_the_few_of_others_waiting() -> None:
    ring = ReadyRing()
    for _ in range(100):
        ring.push(timers(1, 1_000))
    ring.push(mixed(*(timers(bucket, 1) for bucket in range(2, 11))))
    assert taken(ring, 20) == {1: 11} | dict.fromkeys(range(2, 11), 1)


def test_timers_of_one_tenant_stay_in_order_and_come_back_to_the_head() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 40), timers(2, 40)))
    ring.push(mixed(timers(1, 40, first=40), timers(2, 40, first=40)))
    first = ring.take(KIND_HANDLER, LANE, 30)
    ring.push_back(first)
    assert len(ring) == 160
    dues: dict[int, list[int]] = {1: [], 2: []}
    while len(rows := ring.take(KIND_HANDLER, LANE, 7)):
        for bucket, due_ms in zip(buckets(rows), rows["due_ms"].tolist(), strict=True):
            dues[bucket].append(due_ms)
    assert dues == {1: list(range(80)), 2: list(range(80))}


def test_each_timer_is_looked_at_once_until_all_are_to_be_looked_at_again() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 40), timers(2, 3)))
    looked = [ring.take_unsorted(KIND_HANDLER, LANE, 10)]
    assert len(ring) == 35
    assert Counter(buckets(looked[0])) == {1: 5, 2: 3}
    ring.push_sorted(looked[0])
    while len(rows := ring.take_unsorted(KIND_HANDLER, LANE, 10)):
        looked.append(rows)
        ring.push_sorted(rows)
    assert sum(map(len, looked)) == len(ring) == 43
    ring.unsort()
    assert len(ring.take_unsorted(KIND_HANDLER, LANE, 100)) == 43
    assert not len(ring)


def test_what_comes_back_unclaimed_cost_its_tenant_nothing() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 100), timers(2, 100)))
    for _ in range(10):
        rows = ring.take(KIND_HANDLER, LANE, 20)
        ring.push_back(rows[[bucket == 1 for bucket in buckets(rows)]])
        assert Counter(buckets(rows))[1] >= 10


def test_many_tenants_are_served_in_turn() -> None:
    ring = ReadyRing()
    for _ in range(3):
        ring.push(mixed(*(timers(bucket, 2) for bucket in range(1, 1_001))))
    served: Counter[int] = Counter()
    for _ in range(10):
        served += taken(ring, 300)
    assert set(served.values()) == {3}
    assert len(served) == 1_000


def test_the_oldest_due_time_is_that_of_all_tenants() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 5, first=70), timers(2, 5, first=30)))
    ring.push(timers(2, 1, lane=0, first=90))
    assert ring.oldest_due_ms(KIND_HANDLER) == [90, None, 30, None]
    assert ring.oldest_due_ms(KIND_HANDLER, rough=True)[LANE] in (30, 70)
    assert ring.oldest_due_ms(KIND_WEBHOOK) == [None] * 4
    assert ring.lowest_due_ms() == 30


def slots_of(capacity: int, held: Counter[int], now_ms: int = 1) -> FreeSlots:
    by_bucket = np.zeros(2048, np.int64)
    for bucket, count in held.items():
        by_bucket[bucket] = count
    return FreeSlots(capacity - held.total(), now_ms, lambda: by_bucket)


def fill(ring: ReadyRing, capacity: int, held: Counter[int], now_ms: int = 1) -> Counter[int]:
    """Take until no more comes; runs never end."""
    while got := taken(ring, capacity - held.total(), slots_of(capacity, held, now_ms)):
        held += got
    return held


def test_alone_a_tenant_has_all_slots() -> None:
    ring = ReadyRing()
    ring.push(timers(1, 1_000))
    assert fill(ring, 90, Counter()) == {1: 90}


@pytest.mark.parametrize(("hanging", "least_free"), [(1, 10), (2, 5), (3, 3)])
def test_in_company_tenants_whose_runs_hang_leave_slots_free(hanging: int, least_free: int) -> None:
    ring, held = ReadyRing(), Counter[int]()
    ring.push(mixed(*(timers(bucket, 1) for bucket in (50, 51))))
    fill(ring, 90, Counter())
    for bucket in range(1, hanging + 1):
        ring.push(timers(bucket, 1_000))
    fill(ring, 90, held)
    assert 90 - held.total() >= least_free
    ring.push(timers(60, 2))
    assert fill(ring, 90, held)[60] == 2, "whoever comes next finds slots"


def test_without_company_for_a_minute_a_tenant_has_all_slots_again() -> None:
    ring, held = ReadyRing(), Counter[int]()
    ring.push(timers(2, 1))
    taken(ring, 1, slots_of(90, held))
    ring.push(timers(1, 1_000))
    assert fill(ring, 90, held, 2)[1] == 80
    assert fill(ring, 90, held, 2 + COMPANY_MS)[1] == 90


def test_one_slot_goes_to_either() -> None:
    ring = ReadyRing()
    ring.push(mixed(timers(1, 10), timers(2, 10)))
    got = Counter[int]()
    for _ in range(10):
        got += taken(ring, 1, slots_of(1, Counter()))
    assert got == {1: 5, 2: 5}


@pytest.mark.parametrize("slots", [1, 10])
def test_the_least_weight_is_a_small_share_and_not_none(slots: int) -> None:
    ring = ReadyRing()
    ring.set_weight(1, 0.01)
    ring.push(mixed(timers(1, 1_000), timers(2, 10_000)))
    executor = Executor(ring, slots, {1: 100, 2: 100})
    while executor.started.total() < 5_000:
        executor.step()
    assert executor.share(1) == pytest.approx(1 / 101, rel=0.3)


class Naive:
    """What the ring has to keep: rows by lane and bucket, in order."""

    def __init__(self) -> None:
        self.lines: dict[tuple[int, int, int], deque[int]] = {}

    def push(self, rows: Rows) -> None:
        for flags, due in zip(rows["flags"].tolist(), rows["scheduled_ms"].tolist(), strict=True):
            self.lines.setdefault((bool(flags & 8), flags & 3, flags >> 4), deque()).append(due)

    def remove(self, rows: Rows) -> None:
        for flags, due in zip(rows["flags"].tolist(), rows["scheduled_ms"].tolist(), strict=True):
            assert self.lines[bool(flags & 8), flags & 3, flags >> 4].popleft() == due

    def put_back(self, rows: Rows) -> None:
        for flags, due in reversed(list(zip(rows["flags"].tolist(), rows["scheduled_ms"].tolist(), strict=True))):
            self.lines[bool(flags & 8), flags & 3, flags >> 4].appendleft(due)


pushes = st.tuples(st.just("push"), st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=60))
takes = st.tuples(
    st.sampled_from(["take", "return", "look", "unsort"]),
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 40)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(pushes, takes), max_size=30))
def test_nothing_is_lost_doubled_or_out_of_its_tenants_order(
    steps: Sequence[tuple[str, Sequence[object]]],
) -> None:
    ring, naive, number = ReadyRing(), Naive(), 0
    for step, given_values in steps:
        if step == "push":
            rows = empty(TIMER, len(given_values))
            for row, (kind, bucket) in enumerate(given_values):  # type: ignore[misc]
                number += 1
                rows[row] = (number, bytes(16), number, 1, bucket << 4 | kind)  # type: ignore[has-type]
            ring.push(rows)
            naive.push(rows)
        else:
            kind, lane, limit = given_values
            if step == "unsort":
                ring.unsort()
            if step in ("look", "unsort"):
                ring.push_sorted(ring.take_unsorted(int(str(kind)), int(str(lane)), int(str(limit))))
                limit = 0
            waits = sum(len(line) for (k, w, _), line in naive.lines.items() if (k, w) == (kind, lane))
            rows = ring.take(int(str(kind)), int(str(lane)), int(str(limit)))
            assert len(rows) == min(int(str(limit)), waits)
            naive.remove(rows)
            if step == "return":
                ring.push_back(rows)
                naive.put_back(rows)
        waiting = [due for line in naive.lines.values() for due in line]
        assert len(ring) == len(waiting)
        assert sorted(ring.rows()["scheduled_ms"].tolist()) == sorted(waiting)
        assert ring.lowest_due_ms() == min(waiting, default=None)
        for kind in (KIND_WEBHOOK, KIND_HANDLER):
            heads = [
                min(
                    (line[0] for (k, w, _), line in naive.lines.items() if line and (k, w) == (kind, lane)),
                    default=None,
                )
                for lane in range(4)
            ]
            assert ring.oldest_due_ms(kind) == heads


def test_a_light_tenant_beside_a_heavy_one_is_noticed_for_a_while() -> None:
    ring, nobody = ReadyRing(), Counter[int]()
    ring.push(timers(1, 1_000))
    taken(ring, 50, slots_of(90, nobody))
    assert not ring.serves_few(1)
    ring.push(timers(2, 3))
    assert taken(ring, 50, slots_of(90, nobody))[2] == 3
    assert ring.serves_few(2)
    assert not ring.serves_few(1 + FEW_MS)


def test_tenants_that_all_wait_for_much_or_for_nothing_are_no_light_ones() -> None:
    ring, nobody = ReadyRing(), Counter[int]()
    ring.push(mixed(timers(1, 100), timers(2, 100)))
    taken(ring, 50, slots_of(90, nobody))
    assert not ring.serves_few(2)
    taken(ring, 150, slots_of(1_000, nobody))
    assert not len(ring)
    assert not ring.serves_few(2)
