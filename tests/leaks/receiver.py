"""A receiver of webhooks in a thread: it notes requests, and answers as their path says."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from ..interfaces.cli.server_process import wait_until


class Request(NamedTuple):
    """Header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """`/status/503` answers so; `/echo/500` answers so and shows the request's headers."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        received = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.append(Request(self.path, headers, body))
                kind, _, status = self.path.strip("/").partition("/")
                answer = str(self.headers).encode() if kind == "echo" else b"an answer"
                self.send_response(int(status))
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def wait_for(self, job_id: str) -> Request:
        """The first request of that job."""

        def found() -> list[Request]:
            return [one for one in list(self.requests) if one.headers.get("x-job-id") == job_id]

        requests: list[Request] = wait_until(found, why=f"a request of {job_id}")
        return requests[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
