"""A collector of traces: takes OTLP/HTTP as JSON on a free port and keeps what it got."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class OtlpSink:
    """`spans` as they came, `headers` of each request; it answers `status`. Other POSTs are in `calls`."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.calls: list[dict[str, str]] = []
        self.status = 200
        self.url = ""
        self.grown = threading.Condition()

    def named(self, name: str) -> list[dict[str, Any]]:
        """All spans of that name."""
        return [span for span in self.spans if span["name"] == name]

    def wait_for(self, count: int, within_s: float = 45) -> list[dict[str, Any]]:
        """All spans, once there are so many."""
        with self.grown:
            assert self.grown.wait_for(lambda: len(self.spans) >= count, within_s), self.spans
            return list(self.spans)

    def wait_for_calls(self, count: int, within_s: float = 45) -> list[dict[str, str]]:
        """The headers of all other requests, once there were so many."""
        with self.grown:
            assert self.grown.wait_for(lambda: len(self.calls) >= count, within_s), self.calls
            return list(self.calls)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """A request came."""
        with self.grown:
            if path != "/v1/traces":
                self.calls.append(headers)
            else:
                self.headers.append(headers)
                if self.status == 200:
                    for resource in json.loads(body)["resourceSpans"]:
                        self.resources.append(attributes(resource["resource"]))
                        self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
            self.grown.notify_all()
            return self.status if path == "/v1/traces" else 200


def attributes(told: dict[str, Any]) -> dict[str, Any]:
    """Of a span or a resource, as a mapping."""
    return {one["key"]: next(iter(one["value"].values())) for one in told["attributes"]}


class Server(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


@contextmanager
def otlp_sink() -> Iterator[OtlpSink]:
    """It listens as long as the block."""
    sink = OtlpSink()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(sink.take(self.path, headers, body))
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: Any) -> None:
            """Says nothing."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
