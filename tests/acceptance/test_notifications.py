"""A server that is killed tells what it had not told, and nothing twice that the receiver has answered."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.interfaces.cli.server_process import ServerProcess, run_cli, wait_until

NOBODY = "http://127.0.0.1:9/nobody-listens-here"


class Receiver(ThreadingHTTPServer):
    """Keeps the messages and their ids; while it is `deaf` it answers 503."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deaf = False
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.refused_ids: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def about(self) -> list[str]:
        return [body["data"]["about"] for _, body in self.told]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message_id = self.headers["webhook-id"]
        if self.server.deaf:
            self.server.refused_ids.append(message_id)
        else:
            self.server.told.append((message_id, msgspec.json.decode(body)))
        self.send_response(503 if self.server.deaf else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Nothing."""


def fail(server: ServerProcess, name: str) -> None:
    server.client.schedule(
        schedule_type="INSTANT", job_name=name, endpoint=NOBODY, retry_policy={"max_retries": 0}
    )


@pytest.mark.slow
def test_a_killed_server_loses_and_repeats_no_message(tmp_path: Path) -> None:
    def served() -> ServerProcess:
        return ServerProcess("--data", "data", "--allow-loopback", folder=tmp_path, command="serve")

    with Receiver() as receiver:
        with served() as first:
            hook = ("--on", "run.dead_lettered", "--webhook", receiver.url)
            made = run_cli("notifications", "set", "ops", *hook, url=first.url)
            assert made.returncode == 0, made.stderr
            fail(first, "one")
            wait_until(lambda: receiver.about() == ["one"], why="the first failure is told")
            receiver.deaf = True
            fail(first, "two")
            wait_until(lambda: receiver.refused_ids, why="the second one was tried")
            first.process.kill()
        receiver.deaf = False
        with served() as second:
            wait_until(lambda: receiver.about() == ["one", "two"], why="the second failure is told after all")
            fail(second, "three")
            wait_until(lambda: receiver.about()[2:] == ["three"], why="what comes later is told too")
    assert {*receiver.refused_ids} == {receiver.told[1][0]}
