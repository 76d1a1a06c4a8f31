"""The dead-letter queue: list, redrive, remove."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.domain.errors import MOST_PROBLEMS, FieldProblem, InvalidRequest, NotFound
from tickwheel.domain.ids import IdError, job_id_text, parse_job_id, parse_run_id, run_id_text
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.interfaces.http.answers import (
    CauseGroupBody,
    CauseList,
    DeadLetterList,
    NamedJob,
    RedriveBody,
    RedriveRequest,
    RefusedBody,
)
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.path_ids import run_id_of
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.run_views import dead_letter_body
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, iso_text, ok
from tickwheel.services.dead_letters import Causes, Redriven, RunKey, Which

_DECODER: Final = msgspec.json.Decoder(RedriveRequest)


class DeadLetterRoutes:
    """Runs out of attempts."""

    def __init__(self, deps: Deps) -> None:
        self._dead_letters = deps.dead_letters

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/dlq"): self.list,
            ("GET", "/v1/dlq/causes"): self.causes,
            ("POST", "/v1/dlq/redrive"): self.redrive,
            ("DELETE", "/v1/dlq/{run_id}"): self.delete,
        }

    async def list(self, call: Call) -> Answer:
        """A page, newest first."""
        tenant_id, (limit, after) = tenant_of(call), paging(call.query)
        which = _which(call.query.text("cause"), call.query.text("job_id"))
        call.query.done()
        page = await self._dead_letters.list(tenant_id, limit, after, which)
        return ok(DeadLetterList([dead_letter_body(letter) for letter in page.items], page.next_cursor))

    async def causes(self, call: Call) -> Answer:
        """What the queue is full of."""
        tenant_id = tenant_of(call)
        call.query.done()
        return ok(_causes_body(await self._dead_letters.causes(tenant_id)))

    async def redrive(self, call: Call) -> Answer:
        """Run some or all again."""
        tenant_id = tenant_of(call)
        call.query.done()
        request = decode(_DECODER, await call.json_body(BODY_BYTES))
        by_filter = request.cause is not None or request.job_id is not None
        if [request.run_ids is not None, request.all, by_filter].count(True) != 1:
            message = 'give either "run_ids", or "all": true, or "cause" or "job_id" or both'
            raise InvalidRequest([FieldProblem("run_ids", message, "conflict")])
        act = call.act("run.redrive")
        if request.run_ids is None:
            which = _which(request.cause, request.job_id)
            done = await self._dead_letters.redrive_all(tenant_id, which, act=act)
        else:
            done = await self._dead_letters.redrive(tenant_id, _run_keys(request.run_ids), act=act)
        return ok(_redrive_body(done))

    async def delete(self, call: Call) -> Answer:
        """Remove one; its run stays FAILED."""
        tenant_id = tenant_of(call)
        call.query.done()
        await self._dead_letters.delete(tenant_id, *run_id_of(call), act=call.act("dead_letter.delete"))
        return Answer(204)


def _which(cause: str | None, job_id: str | None) -> Which:
    try:
        return Which(cause, None if job_id is None else parse_job_id(job_id))
    except IdError as error:
        raise InvalidRequest([FieldProblem("job_id", f"is not a job id: {error}")]) from None


def _causes_body(causes: Causes) -> CauseList:
    groups = [
        CauseGroupBody(
            cause=group.cause,
            count=group.count,
            jobs=[NamedJob(job_id_text(job_id), name or None) for job_id, name in group.jobs.items()],
            oldest_failed_at=iso_text(group.oldest_ms),
            newest_failed_at=iso_text(group.newest_ms),
            example_run_id=run_id_text(*group.example),
        )
        for group in causes.groups
    ]
    return CauseList(groups, causes.is_whole)


def _run_keys(texts: list[str]) -> list[RunKey]:
    keys: dict[RunKey, None] = {}  # an id that is there twice is redriven once
    problems = []
    for index, text in enumerate(texts):
        try:
            keys[parse_run_id(text)] = None
        except IdError as error:
            problems.append(FieldProblem(f"run_ids[{index}]", f"is not a run id: {error}"))
    if problems:
        raise InvalidRequest(problems[:MOST_PROBLEMS])
    return list(keys)


def _redrive_body(done: Redriven) -> RedriveBody:
    refused = [(run_id_text(one.job_id, one.scheduled_ms), one) for one in done.refused]
    return RedriveBody(
        redriven_count=len(done.redriven),
        redriven=[run_id_text(*key) for key in done.redriven],
        not_found=[run_id for run_id, one in refused if one.code == NotFound.code],
        refused=[
            RefusedBody(run_id, one.code, one.message) for run_id, one in refused if one.code != NotFound.code
        ],
    )
