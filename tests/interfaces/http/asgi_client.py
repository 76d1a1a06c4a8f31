"""An HTTP client that calls an ASGI application directly."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from ...planted import watch

GIVES_SECRETS = "/v1/workers/poll"
"""Workers get header values to send them."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self.body
        problem = self.json
        assert problem["status"] == self.status
        assert problem["title"]
        assert problem["detail"]
        assert problem["type"] == f"/docs#problem-{problem['code']}"
        code: str = problem["code"]
        return code

    @property
    def fields(self) -> list[str]:
        return [problem["field"] for problem in self.json["errors"]]


class AsgiClient:
    """`pieces` sends a body in several messages; `cut` ends it with a disconnect instead.

    A request with `hangs` is cut off by `hang_up`; others wait for their answer.
    """

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self._app = app
        self._token = token
        self._gone = asyncio.Event()

    def with_token(self, token: str) -> "AsgiClient":
        """Another client of the same application."""
        return AsgiClient(self._app, token)

    def hang_up(self) -> None:
        """Cut off the requests that hang."""
        self._gone.set()
        self._gone = asyncio.Event()

    async def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        pieces: Sequence[bytes] | None = None,
        cut: bool = False,
        hangs: bool = False,
        content_type: str | None = "application/json",
    ) -> Reply:
        path, _, query = url.partition("?")
        has_body = body is not None or raw is not None or pieces is not None
        data = list(pieces) if pieces is not None else [raw if raw is not None else json.dumps(body).encode()]
        sent_headers = {k.lower(): v for k, v in (headers or {}).items()}
        if has_body and content_type is not None:
            sent_headers.setdefault("content-type", content_type)
        if self._token is not None:
            sent_headers.setdefault("authorization", f"Bearer {self._token}")
        inbox: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]
        if has_body:
            inbox = [{"type": "http.request", "body": piece, "more_body": True} for piece in data]
            inbox[-1]["more_body"] = cut
        if cut:
            inbox.append({"type": "http.disconnect"})
        outbox: list[Message] = []
        gone = self._gone if hangs else asyncio.Event()

        async def receive() -> Message:
            if inbox:
                return inbox.pop(0)
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            outbox.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in sent_headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        await self._app(scope, receive, send)
        if not outbox:
            return Reply(0, {}, b"")
        types = [message["type"] for message in outbox]
        assert types == ["http.response.start", *["http.response.body"] * (len(outbox) - 1)]
        assert [message.get("more_body", False) for message in outbox[1:]] == [True] * (len(outbox) - 2) + [False]
        got = {k.decode(): v.decode() for k, v in outbox[0]["headers"]}
        answer = Reply(outbox[0]["status"], got, b"".join(message["body"] for message in outbox[1:]))
        if not path.endswith(GIVES_SECRETS):
            watch(answer.body + repr(got).encode(), f"the answer to {method} {url}")
        if len(outbox) == 2 and answer.status not in (204, 304) and method != "HEAD":
            assert int(got["content-length"]) == len(answer.body)
        return answer

    async def get(self, url: str, **kwargs: Any) -> Reply:
        return await self.request("GET", url, **kwargs)

    async def post(self, url: str, body: Any = None, **kwargs: Any) -> Reply:
        return await self.request("POST", url, body, **kwargs)
