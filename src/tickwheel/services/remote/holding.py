"""What a worker holds: attempts that run, and assignments that wait for a slot."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.executor import Work
from tickwheel.ports.remote_work import Assignment, Key


class Held:
    """One assignment. Instants are monotonic, but for `started_ms`."""

    __slots__ = (
        "assignment",
        "begun_mono_ms",
        "is_running",
        "is_stopping",
        "progress",
        "renewed_mono_ms",
        "slot",
        "started_ms",
        "taken_mono_ms",
    )

    def __init__(self, slot: int, assignment: Assignment, mono_ms: int) -> None:
        self.slot, self.assignment = slot, assignment
        self.taken_mono_ms = mono_ms
        self.renewed_mono_ms = assignment.sent_mono_ms  # when the last proof that it is ours was sent
        self.begun_mono_ms = self.started_ms = 0  # when the executor got it
        self.is_running = False  # the executor has it
        self.is_stopping = False  # the executor was told to abort it, and what it reports is no news
        self.progress: ProgressNote | None = None  # not sent yet

    def work(self) -> Work:
        """As the executor wants it."""
        given = self.assignment
        return Work(
            self.slot,
            given.job_id,
            given.scheduled_ms,
            given.fence,
            given.attempt,
            given.max_attempts,
            given.lane,
            given.tenant_id,
            given.target,
            given.payload,
            given.idempotency_key,
            given.job_name,
            given.signing_keys,
            given.trace,
        )


class Holding:
    """All of them, by slot and by key. The executors know an attempt by its slot."""

    def __init__(self) -> None:
        self._by_slot: dict[int, Held] = {}
        self._by_key: dict[Key, Held] = {}
        self._waiting: Final = tuple(deque[Held]() for _ in range(LANE_COUNT))
        self._free: list[int] = []
        self._slot_count = 0

    def __len__(self) -> int:
        return len(self._by_slot)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._by_slot.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    @property
    def keys(self) -> Sequence[Key]:
        """Of everything that is held."""
        return list(self._by_key)

    @property
    def waiting_count(self) -> int:
        """Assignments without a slot."""
        return sum(len(queue) for queue in self._waiting)

    @property
    def running_count(self) -> int:
        """Attempts that the executors have."""
        return len(self._by_slot) - self.waiting_count

    def add(self, assignment: Assignment, mono_ms: int) -> Held:
        """It waits from now on."""
        if not self._free:
            self._free.append(self._slot_count)
            self._slot_count += 1
        held = Held(self._free.pop(), assignment, mono_ms)
        self._by_slot[held.slot] = self._by_key[assignment.key] = held
        self._waiting[assignment.lane].append(held)
        return held

    def first(self, lane: int, count: int) -> list[Held]:
        """The oldest that wait in this lane wait no more."""
        queue = self._waiting[lane]
        return [queue.popleft() for _ in range(min(count, len(queue)))]

    def too_long(self, since_mono_ms: int) -> list[Held]:
        """Those that wait since before that instant."""
        return [held for queue in self._waiting for held in queue if held.taken_mono_ms <= since_mono_ms]

    def waiting(self) -> list[Held]:
        """All that wait."""
        return [held for queue in self._waiting for held in queue]

    def at(self, slot: int) -> Held | None:
        """What the executor calls by this number."""
        return self._by_slot.get(slot)

    def named(self, keys: Iterable[Key]) -> list[Held]:
        """Those of these attempts that are held."""
        return [self._by_key[key] for key in keys if key in self._by_key]

    def drop(self, held: Held) -> None:
        """It is held no more; its number is free."""
        del self._by_slot[held.slot], self._by_key[held.assignment.key]
        if not held.is_running:
            self._waiting[held.assignment.lane].remove(held)
        self._free.append(held.slot)
