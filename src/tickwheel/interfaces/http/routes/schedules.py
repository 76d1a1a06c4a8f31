"""`POST /v1/schedules/preview`: what an expression would do."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.interfaces.http.answers import PreviewBody, PreviewRequest
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.wire import Answer, iso_text, ok

_DECODER: Final = msgspec.json.Decoder(PreviewRequest)


class ScheduleRoutes:
    """Expressions without a job."""

    def __init__(self, deps: Deps) -> None:
        self._jobs = deps.jobs

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {("POST", "/v1/schedules/preview"): self.preview}

    async def preview(self, call: Call) -> Answer:
        """The next times, with notes."""
        call.query.done()
        request = decode(_DECODER, await call.json_body(BODY_BYTES))
        start_ms = None if request.start is None else _start_ms(request.start)
        # A thousand leap days take a tenth of a second to find, in which nothing else would fire.
        shown = await asyncio.to_thread(
            self._jobs.preview, request.cron_expression, request.timezone, start_ms, request.count
        )
        times = [iso_text(instant_ms) for instant_ms in shown.next_ms]
        return ok(PreviewBody(times, list(shown.local), list(shown.notes), list(shown.warnings)))


def _start_ms(text: str) -> int:
    try:
        return parse_instant(text)
    except InstantError as error:
        raise InvalidRequest([FieldProblem("start", str(error), "instant")]) from error
