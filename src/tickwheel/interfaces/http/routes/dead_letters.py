"""The dead-letter queue: list, redrive, remove."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.domain.errors import MOST_PROBLEMS, FieldProblem, InvalidRequest, NotFound
from tickwheel.domain.ids import IdError, parse_run_id, run_id_text
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.interfaces.http.answers import DeadLetterList, RedriveBody, RedriveRequest, RefusedBody
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.path_ids import run_id_of
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.run_views import dead_letter_body
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, ok
from tickwheel.services.dead_letters import Redriven, RunKey

_DECODER: Final = msgspec.json.Decoder(RedriveRequest)


class DeadLetterRoutes:
    """Runs out of attempts."""

    def __init__(self, deps: Deps) -> None:
        self._dead_letters = deps.dead_letters

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/dlq"): self.list,
            ("POST", "/v1/dlq/redrive"): self.redrive,
            ("DELETE", "/v1/dlq/{run_id}"): self.delete,
        }

    async def list(self, call: Call) -> Answer:
        """A page, newest first."""
        tenant_id, (limit, after) = tenant_of(call), paging(call.query)
        call.query.done()
        page = await self._dead_letters.list(tenant_id, limit, after)
        return ok(DeadLetterList([dead_letter_body(letter) for letter in page.items], page.next_cursor))

    async def redrive(self, call: Call) -> Answer:
        """Run some or all again."""
        tenant_id = tenant_of(call)
        call.query.done()
        request = decode(_DECODER, await call.json_body(BODY_BYTES))
        if (request.run_ids is None) is not request.all:
            message = 'give either "run_ids" or "all": true'
            raise InvalidRequest([FieldProblem("run_ids", message, "conflict")])
        act = call.act("run.redrive")
        if request.run_ids is None:
            done = await self._dead_letters.redrive_all(tenant_id, act=act)
        else:
            done = await self._dead_letters.redrive(tenant_id, _run_keys(request.run_ids), act=act)
        return ok(_redrive_body(done))

    async def delete(self, call: Call) -> Answer:
        """Remove one; its run stays FAILED."""
        tenant_id = tenant_of(call)
        call.query.done()
        await self._dead_letters.delete(tenant_id, *run_id_of(call), act=call.act("dead_letter.delete"))
        return Answer(204)


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
