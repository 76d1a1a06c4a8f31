"""`tickwheel workers` against a real server."""

import json
import urllib.request
from collections.abc import Callable

from click.testing import Result

from .server_process import ServerProcess


def test_workers_are_listed(call: Callable[..., Result], server: ServerProcess) -> None:
    nobody = call("workers")
    assert (nobody.exit_code, nobody.stdout, nobody.stderr) == (0, "", "There is no worker.\n")
    asked = {
        "worker": {"name": "press\u202e-1", "draining": True},
        "handlers": ["print"],
        "webhooks": True,
        "slots": {"total": 8, "free": 6},
        "wait_seconds": 0,
    }
    request = urllib.request.Request(
        server.url + "/v1/workers/poll", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        worker_id = json.load(answer)["worker_id"]
    found = call("workers")
    assert found.exit_code == 0, found.output
    heads, line = found.stdout.splitlines()
    assert heads.split() == ["WORKER", "NAME", "TENANT", "VIA", "BUSY", "STATE", "SEEN", "SERVES"]
    assert worker_id in line
    for cell in ("press\N{MIDDLE DOT}-1", " http ", " 2/8 ", " draining ", "print, webhooks"):
        assert cell in line
    listed = json.loads(call("workers", "--json").stdout)
    assert [worker["worker_id"] for worker in listed["workers"]] == [worker_id]
    leave = urllib.request.Request(
        server.url + "/v1/workers/leave",
        json.dumps({"worker_id": worker_id}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(leave) as answer:
        assert json.load(answer) == {"left": True}
