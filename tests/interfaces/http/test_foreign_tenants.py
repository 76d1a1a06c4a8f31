"""Whatever a token of one tenant sends: nothing of another tenant is told or changed.

Every operation of the API is walked, new ones too. Each of its slots (variables of the path, parameters, headers,
members of the body) is filled with ids, names and keys of another tenant. What is foreign is answered like what
never was; only a missing scope, and what is about the whole installation, is 403.

An operation whose variables or lists this can't fill fails here: see `two_tenants.settle`.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.domain.access import ROLE_SCOPES, Role
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.interfaces.http.operations import OPERATIONS, Operation
from tickwheel.testing.idle_loop import IdleLoop

from .asgi_client import AsgiClient, Reply
from .foreign_requests import Fill, Request, Slot, request, slots_of, twin
from .two_tenants import Belongings, everything_of, retire, settle
from .whole_world import WholeWorld

OWN, THEIRS = "acme", "bolt"
OBJECTIVES: Final = ("DEFAULT=99%@1s", f"tenant:{OWN}=99%@1s", f"tenant:{THEIRS}=98%@1s")
MAKES: Final = {("put_job", "name"), ("put_notification", "notification_name")}
"""A name in the path that is free in each tenant."""
NOT_ABOUT_TENANTS: Final = frozenset({"egress_refused"})
ASKED: Final = [one for one in OPERATIONS if not one.public]
NAMED = pytest.mark.parametrize("operation", ASKED, ids=lambda one: one.name)
READS: Final = [one for one in ASKED if one.method == "GET"]


class Scene:
    """A tenant that asks, and two others."""

    def __init__(self, world: WholeWorld, others: list[Belongings], own: Belongings) -> None:
        self.world, self.others, self.own = world, others, own
        self.members: dict[Role, AsgiClient] = {}
        self._said: set[str] = set()  # what the tenant has said itself, and may hear again
        self._before = self._stored()

    @classmethod
    async def open(cls, *others: str) -> "Scene":
        world = await WholeWorld(*OBJECTIVES).open()
        *theirs, own = await settle(world, *others, OWN)
        scene = cls(world, theirs, own)
        scene.members = {role: await world.member(OWN, role) for role in Role}
        return scene

    @property
    def theirs(self) -> Belongings:
        return self.others[0]

    def _stored(self) -> list[list[str]]:
        return [everything_of(self.world, other.tenant_id) for other in self.others]

    def untouched(self) -> None:
        """Nothing of the others was changed."""
        assert self._stored() == self._before

    async def compare(self, role: Role, operation: Operation, fill: Fill) -> Reply:
        """Ask, see that nothing is told, and that it is what things that never were answer."""
        await self._renew(operation)
        sent = request(operation, self.own, fill)
        reply = await self.ask(role, sent)
        await self._renew(operation)
        like = twin(operation, self.own, self.theirs, fill)
        other = await self.ask(role, like)
        assert _kind(reply) == _kind(other), (role, sent, reply, other)
        if reply.status >= 400 or operation.method == "GET":
            assert _words(reply, sent) == _words(other, like), (role, sent)
        return reply

    async def ask(self, role: Role, sent: Request) -> Reply:
        """The answer, in which nothing of the others is but what was in the request itself."""
        reply = await self.members[role].request(sent.operation.method, sent.url, sent.body, headers=sent.headers)
        assert reply.status != 405
        assert reply.status < 500, (role, sent, reply)
        told = (repr(reply.headers).encode() + reply.body).decode()
        for text in (*sent.sent, *self._said):
            told = told.replace(text, "")
        for other in self.others:
            leaked = [mark for mark in other.marks if mark in told]
            assert not leaked, (role, sent, leaked, reply)
        if sent.operation.method != "GET":
            self._said.update(sent.sent)
        return reply

    async def _renew(self, operation: Operation) -> None:
        """A change finds a job that nothing was changed of yet."""
        if operation.method == "GET" or "{job_id}" not in operation.path:
            return
        body = {
            "schedule_type": "CRON",
            "cron_expression": "0 0 1 1 *",
            "target": {"endpoint": "https://a.example"},
        }
        made = await self.own.client.post("/v1/jobs", body)
        self.own.named["job_id"][-1] = made.json["job_id"]

    async def close(self) -> None:
        await self.world.close()


_VARIES: Final = re.compile(
    r"(job|run)_[0-9A-Z]+|http-[\w.-]+|\d{4}-\d\d-\d\dT[\d:.]+Z|\"(token|token_id|value|id)\":\"[^\"]*\""
)


def _kind(reply: Reply) -> tuple[int, str]:
    """Created and found again are alike."""
    return (2, "") if reply.status < 300 else (reply.status, reply.code)


def _words(reply: Reply, sent: Request) -> str:
    """The body without what was sent, and what is new each time."""
    text = reply.body.decode()
    for value in sent.sent:
        text = text.replace(value, "SENT")
    return _VARIES.sub("ID", text)


def _covered(operation: Operation, role: Role) -> bool:
    return operation.scope in (None, *ROLE_SCOPES[role]) and not operation.for_installation


def fills_of(slots: list[Slot], role: Role) -> Iterator[Fill]:
    """Each slot alone with all that could be named there, and with the tenant named too; then several at once."""
    tenant = next(slot for slot in slots if (slot.where, slot.name) == ("query", "tenant_id"))
    for slot in slots:
        for value in slot.values if role is Role.ADMIN else slot.values[-1:]:
            yield {slot: value}
            if slot is not tenant:
                yield {slot: value, tenant: tenant.values[0]}
    for several in (
        [slot for slot in slots if slot.where in ("path", "body")],
        [slot for slot in slots if slot.where == "body" and slot.name != "tenant_id"],
    ):
        if len(several) > 1:
            yield {slot: slot.values[-1] for slot in several}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await Scene.open(THEIRS, DEFAULT_TENANT)
    yield scene
    await scene.close()


@pytest.mark.pitfall(104)
@NAMED
async def test_nothing_of_another_tenant_is_told_or_changed(scene: Scene, operation: Operation) -> None:
    for role in Role:
        if operation.method == "GET":
            await scene.ask(role, request(operation, scene.own, {}))
        for fill in fills_of(slots_of(operation, scene.theirs), role):
            reply = await scene.compare(role, operation, fill)
            wanted = _wanted(operation, role, fill)
            if wanted is not None:
                assert reply.status == wanted, (role, fill, reply)
            else:
                assert reply.status != 403 or reply.code in NOT_ABOUT_TENANTS, (role, fill, reply)
            if wanted in (207, 422):
                assert _fields(reply) == ["tenant_id"], (role, fill, reply)
    scene.untouched()


def _wanted(operation: Operation, role: Role, fill: Fill) -> int | None:
    """The status that foreign things answer; None: it depends, but it isn't 403."""
    if not _covered(operation, role):
        return 403
    named = {(slot.where, slot.name) for slot in fill}
    if ("query", "tenant_id") in named and any(
        one.where == "query" and one.name == "tenant_id" for one in operation.params
    ):
        return 404 if all(where != "body" for where, _ in named) else None
    if all(where == "path" for where, _ in named):
        return None if any((operation.name, name) in MAKES for _, name in named) else 404
    if named == {("body", "tenant_id")}:
        return 207 if operation.name == "create_jobs" else 422
    return None


def _fields(reply: Reply) -> list[str]:
    """What an answer, or the first result of a batch, says is wrong."""
    problem = reply.json["results"][0] if reply.status == 207 else reply.json
    return [error["field"] for error in problem["errors"]]


@pytest.mark.parametrize(
    "operation", [one for one in READS if any(p.name == "cursor" for p in one.params)], ids=lambda one: one.name
)
async def test_a_cursor_of_another_tenant_leads_nowhere(scene: Scene, operation: Operation) -> None:
    for role in Role:
        if not _covered(operation, role):
            continue
        for other in scene.others:
            page = await other.client.get(request(operation, other, {}).url + "?limit=1")
            assert page.status == 200, page.body
            cursor = page.json["next_cursor"]
            assert cursor is not None, "the other tenant has too few of these"
            fill: dict[Slot, Any] = {Slot("query", "cursor", (), (cursor,)): cursor}
            paths = {slot: slot.values[-1] for slot in slots_of(operation, other) if slot.where == "path"}
            for several in (fill, fill | paths):
                reply = await scene.ask(role, request(operation, scene.own, several))
                assert reply.status in (400, 404), reply
                assert reply.code in ("bad_cursor", "not_found")
    scene.untouched()


@pytest.mark.parametrize("role", list(Role))
async def test_answers_are_the_same_whether_or_not_there_is_another_tenant(role: Role) -> None:
    """Numbers too: counts, loads, pages and what else tells how much there is."""
    answers: list[dict[str, Any]] = []
    now_ms = 0
    for others in ((THEIRS, DEFAULT_TENANT), ()):
        world = await WholeWorld(*OBJECTIVES).open()
        [own] = await settle(world, OWN)
        await retire(own)
        member = await world.member(OWN, role)
        await settle(world, *others)
        await world.clock.advance(max(0, now_ms - world.clock.now_ms()))
        now_ms = world.clock.now_ms()
        answers.append({one.name: await member.get(request(one, own, {}).url) for one in READS})
        await world.close()
    for name, reply in answers[0].items():
        assert reply == answers[1][name], name


def test_any_mixture_of_requests_tells_and_changes_nothing() -> None:
    @settings(max_examples=settings().max_examples // 10)
    @given(st.lists(st.tuples(st.sampled_from(ASKED), st.randoms(use_true_random=False)), max_size=12))
    def mix(asked: list[tuple[Operation, Any]]) -> None:
        with asyncio.Runner(loop_factory=IdleLoop) as runner:
            runner.run(_mix(asked))

    mix()


async def _mix(asked: list[tuple[Operation, Any]]) -> None:
    scene = await Scene.open(THEIRS)
    for operation, random in asked:
        slots = [slot for slot in slots_of(operation, scene.theirs) if random.random() < 0.3]
        fill = {slot: random.choice(slot.values) for slot in slots}
        await scene.ask(random.choice(list(Role)), request(operation, scene.own, fill))
        scene.untouched()
    await scene.close()
