"""A firing side whose failures are told: rules, a courier that does as it is told, nodes of which some lead."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.services.world import FAILED, Events, World

from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.messages import Message
from tickwheel.domain.notifications.rule import NotificationRule, Webhook
from tickwheel.domain.outcome import OK, Outcome, WhenExhausted
from tickwheel.ports.events import NotificationEnded
from tickwheel.ports.executor import Work
from tickwheel.ports.notices import NoticeStore
from tickwheel.ports.registry import Act
from tickwheel.services.notifying.intake import Intake, ReadsJobs
from tickwheel.services.notifying.notifier import Notifier
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.supervision import supervise

ACT = Act("test", "notification.put")
HERE = Webhook("https://ops.example/hook")
MINUTE_MS = 60_000


@dataclass
class Told:
    """A message that somebody got."""

    at_ms: int
    rule: NotificationRule
    message: Message

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.json.decode(self.message.body)
        return body

    @property
    def kind(self) -> str:
        return str(self.body["type"])

    @property
    def count(self) -> int:
        return int(self.body["data"]["count"])


@dataclass
class FakeCourier:
    """Brings everything unless `answer` says otherwise; one that hangs is let go by `release`."""

    now_ms: Callable[[], int]
    told: list[Told] = field(default_factory=list)
    tried: list[Told] = field(default_factory=list)
    answer: Callable[[Message], str | None] = lambda message: None
    hangs: Callable[[Message], bool] = lambda message: False
    release: asyncio.Event = field(default_factory=asyncio.Event)
    warned: list[str] = field(default_factory=list)

    def check(self, tenant_id: str, rule: NotificationRule) -> None:
        """Everything is possible."""

    def warnings(self, tenant_id: str, rule: NotificationRule) -> list[str]:
        return self.warned

    async def bring(self, rule: NotificationRule, message: Message) -> str | None:
        told = Told(self.now_ms(), rule, message)
        self.tried.append(told)
        if self.hangs(message):
            await self.release.wait()
        error = self.answer(message)
        if error is None:
            self.told.append(told)
        return error

    async def aclose(self) -> None:
        """Nothing to let go of."""


class Node:
    """One process that may send; `leads` says whether it thinks that it is to."""

    def __init__(self, stage: "Stage", store: NoticeStore, jobs: ReadsJobs) -> None:
        self.leads, self.events = True, Events()
        world = stage.world
        self._clock = world.clock
        self.rules = NotificationRules(world.store, stage.courier, world.clock)
        self.notifier = Notifier(
            store=store,
            rules=self.rules,
            intake=Intake(jobs, self.rules, world.clock),
            courier=stage.courier,
            clock=world.clock,
            events=self.events,
            is_leader=lambda: self.leads,
            public_url="https://jobs.example/",
        )
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> "Node":
        self._loop = asyncio.create_task(supervise("notifications", self.notifier.run, self._clock, self.events))
        return self

    async def kill(self) -> None:
        """As kill -9 does: nothing more is written."""
        self.notifier._forget()
        await self.stop()

    async def stop(self) -> None:
        assert self._loop is not None
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)

    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.events.of(NotificationEnded)]


class Stage:
    """`broken` names jobs whose runs fail for good."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.courier = FakeCourier(self.world.clock.now_ms)
        self.broken: set[str] = set()
        self.world.behave = self._behave
        self._nodes: list[Node] = []
        self._scheduler: Scheduler | None = None

    @property
    def told(self) -> list[Told]:
        return self.courier.told

    @property
    def scheduler(self) -> Scheduler:
        assert self._scheduler is not None
        return self._scheduler

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.told]

    async def open(self) -> "Stage":
        self._scheduler = await self.world.start()
        return self

    def node(self, store: NoticeStore | None = None, *, jobs: ReadsJobs | None = None) -> Node:
        node = Node(self, store or self.world.store, jobs or self.world.store).start()
        self._nodes.append(node)
        return node

    async def rule(
        self, *events: Kind, name: str = "ops", tenant_id: str = "default", **fields: Any
    ) -> NotificationRules:
        rules = NotificationRules(self.world.store, self.courier, self.world.clock)
        rule = NotificationRule(events=events, webhook=HERE, **fields)
        await rules.put(tenant_id, name, rule, ACT)
        return rules

    async def fail(self, *names: str, tenant_id: str = "default") -> Sequence[bytes]:
        """One-off runs of these names end in the dead-letter queue, now."""
        self.broken.update(names)
        jobs = [self.world.job(name=name, retries=0, tenant_id=tenant_id, handler="h") for name in names]
        return await self.world.add(self._scheduler, *jobs)

    async def each_minute(self, name: str, *, drops: bool = False, **fields: Any) -> bytes:
        """A job that runs each minute. `drops`: its failed runs don't go to the dead-letter queue."""
        new = self.world.job(
            cron="* * * * *", name=name, retries=0, first_ms=self.world.next_minute_ms(), **fields
        )
        if drops:
            retry = replace(new.job.spec.retry, when_exhausted=WhenExhausted.DROP)
            new = replace(new, job=replace(new.job, spec=replace(new.job.spec, retry=retry)))
        [job_id] = await self.world.add(self._scheduler, new)
        return job_id

    async def wait(self, length_ms: int) -> None:
        await self.world.clock.advance(length_ms)

    async def close(self) -> None:
        for node in self._nodes:
            await node.kill()

    async def end(self) -> None:
        if self._scheduler is not None:
            await self.world.crash(self._scheduler)

    def _behave(self, work: Work) -> Outcome | None:
        return FAILED if work.job_name in self.broken else OK


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Ends the nodes that a test has started."""

    @wraps(test)
    async def played(stage: Stage, **rest: Any) -> None:
        try:
            await test(stage, **rest)
        finally:
            await stage.close()

    return played
