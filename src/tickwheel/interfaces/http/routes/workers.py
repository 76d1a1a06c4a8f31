"""Workers: poll for runs, keep them, end them, leave; and the list of all workers."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.interfaces.http.auth import still_holds
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.wire import Answer, Refusal, ok
from tickwheel.interfaces.http.worker_bodies import (
    BEATS_BYTES,
    ENDS_BYTES,
    POLL_BYTES,
    CompleteRequest,
    EndsAnswer,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    LeaveAnswer,
    LeaveRequest,
    PollAnswer,
    PollRequest,
    WorkerList,
)
from tickwheel.interfaces.http.worker_views import (
    RunSecrets,
    assigned_runs,
    beat_answer,
    beat_of,
    end_answers,
    failures_of,
    keys_of,
    poll_of,
    run_ids,
    success_of,
    worker_body,
)
from tickwheel.services.remote.desk import WorkerDesk

_POLL: Final = msgspec.json.Decoder(PollRequest)
_HEARTBEAT: Final = msgspec.json.Decoder(HeartbeatRequest)
_COMPLETE: Final = msgspec.json.Decoder(CompleteRequest)
_FAIL: Final = msgspec.json.Decoder(FailRequest)
_LEAVE: Final = msgspec.json.Decoder(LeaveRequest)


class WorkerRoutes:
    """The pull protocol. Whoever has a token of one tenant works for that tenant only."""

    def __init__(self, deps: Deps) -> None:
        self._found, self._authentication = deps.workers, deps.authentication
        self._secrets = RunSecrets(deps.vault)
        if deps.signing_secrets is not None:
            self._secrets = RunSecrets(deps.vault, deps.signing_secrets.values_for)

    @property
    def _desk(self) -> WorkerDesk:
        if self._found is None:
            raise Refusal("not_ready", "This node serves no workers.")
        return self._found

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/workers"): self.list,
            ("POST", "/v1/workers/poll"): self.poll,
            ("POST", "/v1/workers/heartbeat"): self.heartbeat,
            ("POST", "/v1/workers/complete"): self.complete,
            ("POST", "/v1/workers/fail"): self.fail,
            ("POST", "/v1/workers/leave"): self.leave,
        }

    async def list(self, call: Call) -> Answer:
        """All live workers, or a tenant's own."""
        tenant_id = tenant_filter(call)
        call.query.done()
        return ok(WorkerList([worker_body(state) for state in await self._desk.workers(tenant_id)]))

    async def poll(self, call: Call) -> Answer:
        """Runs for a worker, or nothing after a while."""
        call.query.done()
        request, desk = decode(_POLL, await call.json_body(POLL_BYTES)), self._desk
        ask = poll_of(request, call.principal.tenant_id)
        gone, authorization = asyncio.Event(), call.headers.get(b"authorization")
        with call.watching(gone):
            # Nothing is awaited between the last look at `gone` and the writing of the answer.
            polled = await desk.poll(ask, gone, lambda: still_holds(self._authentication, authorization))
        runs, unsent = assigned_runs(polled.runs, self._secrets)
        if unsent:
            desk.fail_unsent(polled.worker, unsent)
        return ok(
            PollAnswer(
                worker_id=polled.worker,
                session_seconds=desk.session_length_ms / 1000,
                lease_seconds=desk.lease_length_ms / 1000,
                runs=runs,
                cancelled=run_ids(polled.cancelled),
                lost=run_ids(polled.lost),
            )
        )

    async def heartbeat(self, call: Call) -> Answer:
        """Keep the session and the leases."""
        call.query.done()
        request = decode(_HEARTBEAT, await call.json_body(BEATS_BYTES))
        beats = [beat_of(body) for body in request.runs]
        is_open, beaten = await self._desk.beat(request.worker_id, beats, call.principal.tenant_id)
        answers = [beat_answer(body, one) for body, one in zip(request.runs, beaten, strict=True)]
        return ok(HeartbeatAnswer(is_open, answers))

    async def complete(self, call: Call) -> Answer:
        """Runs that succeeded."""
        call.query.done()
        request = decode(_COMPLETE, await call.json_body(ENDS_BYTES))
        ends = [success_of(body) for body in request.runs]
        refusals = await self._desk.end(request.worker_id, ends, call.principal.tenant_id)
        return ok(EndsAnswer(end_answers(request.runs, refusals)))

    async def fail(self, call: Call) -> Answer:
        """Runs that did not."""
        call.query.done()
        request = decode(_FAIL, await call.json_body(ENDS_BYTES))
        refusals = await self._desk.end(request.worker_id, failures_of(request.runs), call.principal.tenant_id)
        return ok(EndsAnswer(end_answers(request.runs, refusals)))

    async def leave(self, call: Call) -> Answer:
        """The worker goes."""
        call.query.done()
        request = decode(_LEAVE, await call.json_body(POLL_BYTES))
        holding = keys_of(request.holding)
        return ok(LeaveAnswer(await self._desk.leave(request.worker_id, holding, call.principal.tenant_id)))
