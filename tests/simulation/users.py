"""People who use the API of whichever node answers, and remember what they were promised."""

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.job import Overlap
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.domain.run import TERMINAL
from tickwheel.testing.virtual_clock import VirtualClock

from .nodes import Node
from .rulebook import Rulebook

T = TypeVar("T")
TENANT: Final = "default"
TENANTS: Final = (TENANT, TENANT, "acme")
"""The last one has workers of its own, where there are workers at all."""
CRONS: Final = ("* * * * * *", "*/2 * * * * *", "1/2 * * * * *", "*/3 * * * * *")
LIMITS: Final[Sequence[list[dict[str, object]]]] = (
    [],
    [],
    [],
    [],
    [],
    [{"key": "one", "limit": 1}],
    [{"key": "three", "limit": 3}, {"scope": "tenant", "limit": 5}],
    [{"key": "few", "limit": 2, "max_waiting": 2}],
)
"""Each key has one limit, so that it can be said what must hold."""
RECURRING_LIMIT: Final = 8


class Users:
    """Each `act` is one request. `known` are the jobs that were answered with 201."""

    def __init__(
        self, rng: random.Random, clock: VirtualClock, rulebook: Rulebook, pick_node: Callable[[], Node | None]
    ) -> None:
        self._rng, self._clock, self._rulebook, self._pick_node = rng, clock, rulebook, pick_node
        self.known: set[bytes] = set()
        self.recurring: set[bytes] = set()
        self.met: Counter[str] = Counter()

    async def act(self) -> None:
        """Ask for something."""
        node = self._pick_node()
        if node is None:
            return
        (verb,) = self._rng.choices([verb for verb, _ in self._verbs], [weight for _, weight in self._verbs])
        await verb(self, node)

    async def _ask(self, node: Node, word: str, request: Awaitable[T]) -> T | None:
        """The answer; None when it was refused, or when nobody knows."""
        try:
            answer = await node.handle(request)
        except TickwheelError as error:
            self.met[f"{word}: {type(error).__name__}"] += 1
            return None
        self.met[word if answer is not None else f"{word}: no answer"] += 1
        return answer

    def _job(self) -> bytes | None:
        """Any job, also one whose creation nobody answered."""
        jobs = sorted(self._rulebook.database.tables.jobs)
        return self._rng.choice(jobs) if jobs else None

    def _tenant_of(self, job_id: bytes) -> str:
        return self._rulebook.database.tables.jobs[job_id].tenant_id

    async def _create(self, node: Node) -> None:
        asked: list[dict[str, object]] = [self._one_off() for _ in range(self._rng.randrange(1, 8))]
        if len(self.recurring) < RECURRING_LIMIT and self._rng.random() < 0.35:
            asked.append(self._cron())
        answers = await self._ask(
            node, "create", node.jobs.create_many([json.dumps(request).encode() for request in asked])
        )
        for request, answer in zip(asked, answers or (), strict=False):
            if isinstance(answer, TickwheelError):
                self.met[f"create: {type(answer).__name__}"] += 1
            else:
                self.known.add(answer.job_id)
                if request["schedule_type"] == "CRON":
                    self.recurring.add(answer.job_id)

    def _one_off(self) -> dict[str, object]:
        delay_ms = self._rng.choice((-2_000, 0, 0, 5, 60, 300, 1_000, 2_500, 5_000))
        delay_ms += self._rng.randrange(50)
        return {
            "schedule_type": "ONE_OFF",
            "execute_at": format_instant(self._clock.now_ms() + delay_ms),
            "priority": self._rng.choice(("CRITICAL", "DEFAULT", "LOW")),
            **self._common(),
        }

    def _cron(self) -> dict[str, object]:
        return {
            "schedule_type": "CRON",
            "cron_expression": self._rng.choice(CRONS),
            "overlap": self._rng.choice(("allow", "allow", "skip", "buffer_one")),
            "catch_up": {"policy": self._rng.choice(("fire_once", "fire_all", "skip"))},
            **self._common(),
        }

    def _common(self) -> dict[str, object]:
        retry = {
            "max_retries": self._rng.randrange(4),
            "initial_interval_sec": 1,
            "max_interval_sec": 1,
        }
        limits = self._rng.choice(LIMITS)
        return {
            "tenant_id": self._rng.choice(TENANTS),
            "target": {"endpoint": "https://a.example/x"},
            "retry_policy": retry,
            **({"concurrency": limits} if limits else {}),
        }

    async def _cancel(self, node: Node) -> None:
        job_id = self._job()
        if (
            job_id is not None
            and await self._ask(node, "cancel", node.jobs.cancel(self._tenant_of(job_id), job_id)) is not None
        ):
            self._rulebook.cancelled(job_id)

    async def _cancel_run(self, node: Node) -> None:
        job_id = self._job()
        tables = self._rulebook.database.tables
        if job_id is None:
            return
        instants = [at for at, row in tables.runs_of.get(job_id, {}).items() if row.run.state not in TERMINAL]
        instants += [key.scheduled_ms for key in tables.live_timers(job_id)]
        if not instants:
            return
        at_ms = self._rng.choice(sorted(instants))
        if (
            await self._ask(node, "cancel run", node.runs.cancel(self._tenant_of(job_id), job_id, at_ms))
            is not None
        ):
            self._rulebook.cancelled_runs.add((job_id, at_ms))

    async def _pause(self, node: Node) -> None:
        job_id = self._job()
        if job_id is not None:
            await self._ask(node, "pause", node.jobs.pause(self._tenant_of(job_id), job_id))

    async def _resume(self, node: Node) -> None:
        jobs = self._rulebook.paused()
        if jobs:
            job_id = self._rng.choice(jobs)
            await self._ask(node, "resume", node.jobs.resume(self._tenant_of(job_id), job_id))

    async def _edit(self, node: Node) -> None:
        job_id = self._job()
        if job_id is None:
            return
        job = self._rulebook.database.tables.jobs[job_id]
        members: dict[str, object] = {"payload": self._rng.randrange(3)}
        if job.recurring:
            members["cron_expression"] = self._rng.choice(CRONS)
            if self._rng.random() < 0.2:
                members |= {"overlap": self._rng.choice(list(Overlap)).value, "tags": ["overlapped"]}
        elif self._rng.random() < 0.7:
            members["execute_at"] = format_instant(self._clock.now_ms() + self._rng.randrange(-2_000, 4_000))
        await self._ask(
            node,
            "edit",
            node.jobs.edit(self._tenant_of(job_id), job_id, parse_patch(json.dumps(members).encode())),
        )

    async def _trigger(self, node: Node) -> None:
        job_id = self._job()
        if job_id is not None:
            created = await self._ask(node, "run now", node.jobs.trigger(self._tenant_of(job_id), job_id))
            if created is not None:
                self.known.add(created.job_id)

    async def _redrive(self, node: Node) -> None:
        await self._ask(node, "redrive", node.dead_letters.redrive_all(self._rng.choice(TENANTS)))

    async def resume_all(self, node: Node) -> None:
        """At the end: let everything that is paused go on."""
        for job_id in self._rulebook.paused():
            await self._ask(node, "resume", node.jobs.resume(self._tenant_of(job_id), job_id))

    _verbs: Sequence[tuple[Callable[["Users", Node], Awaitable[None]], float]] = (
        (_create, 0.52),
        (_cancel, 0.06),
        (_cancel_run, 0.08),
        (_pause, 0.08),
        (_resume, 0.1),
        (_edit, 0.1),
        (_trigger, 0.03),
        (_redrive, 0.03),
    )
