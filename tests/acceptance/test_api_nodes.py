"""Nodes with the role api alone, as behind a load balancer: what an operator sees who gets to one of them."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tickwheel import Client

from ..servers.serve import Serve, start_all
from ..servers.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("processes")]
PATIENCE_S = 60
SHARDS = 256
ENDPOINT = "http://127.0.0.1:9/nobody-listens-here"


@pytest.fixture
def nodes(blank_postgresql: str, tmp_path: Path) -> Iterator[list[Serve]]:
    """Two that serve the API, and one that fires."""
    roles = ("api", "api", "scheduler,worker")
    started = [
        Serve(tmp_path, "--roles", role, store=blank_postgresql, name=f"node-{number}")
        for number, role in enumerate(roles)
    ]
    try:
        start_all(started[:1])  # it makes the tables
        start_all(started[1:])
        yield started
    finally:
        for node in started:
            if node.runs:
                node.kill()


def ask(node: Serve, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port}{path}", timeout=10) as answer:
        body: dict[str, Any] = json.loads(answer.read())
    return body


def status(node: Serve, path: str) -> int:
    try:
        ask(node, path)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def wait_until_seen(node: Serve, *expected: tuple[str, str, int]) -> None:
    """Until it shows nodes of these roles, standings and shards, itself included."""

    def seen() -> list[tuple[str, str, int]]:
        shown = ask(node, "/v1/nodes")["nodes"]
        return sorted((",".join(one["roles"]), one["standing"], len(one["shards"])) for one in shown)

    wait_until(lambda: seen() == sorted(expected), PATIENCE_S, f"it shows {expected}")


def test_an_api_node_shows_the_whole_cluster(nodes: list[Serve]) -> None:
    """What fires and how late, who else serves; and who died, without taking anything over."""
    api, other, firing = nodes
    one_api, one_firing = ("api", "alive", 0), ("scheduler,worker", "alive", SHARDS)
    for node in (api, other):
        wait_until_seen(node, one_api, one_api, one_firing)
    with Client(f"http://127.0.0.1:{other.port}") as client:
        client.schedule(target={"endpoint": ENDPOINT}, cron_expression="* * * * * *")
    wait_until(lambda: ask(api, "/v1/overview")["started"] > 0, PATIENCE_S, "the starts of the other node")
    assert ask(api, "/v1/overview")["nodes"] == 3
    wait_until(lambda: sum(ask(api, "/v1/overview")["starts_by_second"]) > 0, PATIENCE_S, "starts by second")
    wait_until(lambda: status(api, "/v1/scaling") == 200, PATIENCE_S, "what the owner has for workers")
    other.kill()
    wait_until_seen(api, one_api, one_firing)
    assert "member.lost" in firing.log.read_text()
    assert "cause=takeover" not in firing.log.read_text()
    firing.kill()
    wait_until_seen(api, one_api, ("scheduler,worker", "silent", SHARDS))
    assert ask(api, "/v1/overview")["standing"] == "late"
    assert status(api, "/v1/scaling") == 503
