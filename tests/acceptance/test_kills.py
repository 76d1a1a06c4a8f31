"""Kill -9 at the worst moments, on real processes."""

import http.client
import json
import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from .crash.api import Api
from .crash.running import kill_while_running
from .crash.scenario import Server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes"), pytest.mark.timeout(120)]


@pytest.mark.pitfall(34)
def test_no_run_stays_with_a_killed_process(tmp_path: Path) -> None:
    seen = kill_while_running(tmp_path / "it", runs=1_000, tell=lambda line: None)
    assert seen.running_before == 1_000
    assert seen.clean, str(seen)
    assert seen.seconds < 15, "far less than the lease of 30 s: the dead are known to be dead"


class Pair:
    """Two callers that post each key at the same moment, until the server is gone."""

    def __init__(self, port: int, first_key: int) -> None:
        self._port, self._next = port, first_key
        self._both = threading.Barrier(2)
        self.asked: set[str] = set()
        self.ids: dict[str, set[str]] = defaultdict(set)
        self.threads = [threading.Thread(target=self._post_all) for _ in range(2)]
        for thread in self.threads:
            thread.start()

    def _post_all(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        number = self._next
        try:
            while True:
                self._both.wait(5)
                key = f"key-{number}"
                self.asked.add(key)
                connection.request("POST", "/v1/jobs", body(), headers(key))
                reply = connection.getresponse()
                answer = json.loads(reply.read())
                assert reply.status == 201, answer
                self.ids[key].add(answer["job_id"])
                number += 1
        except (OSError, http.client.HTTPException, threading.BrokenBarrierError, ValueError):
            self._both.abort()
        finally:
            connection.close()


def body() -> str:
    return json.dumps(
        {"schedule_type": "DELAYED", "delay_seconds": 600, "target": {"type": "HANDLER", "name": "x"}}
    )


def headers(key: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "Idempotency-Key": key}


@pytest.mark.pitfall(86)
def test_of_two_posts_with_one_key_that_a_kill_interrupts_every_answered_id_is_there(tmp_path: Path) -> None:
    rng, server = random.Random(86), Server(tmp_path)
    pairs: list[Pair] = []
    api, interrupted = Api(server.port), 0
    try:
        for kill in range(4):
            server.start()
            server.wait_until_ready()
            pairs.append(Pair(server.port, first_key=kill * 100_000))
            time.sleep(0.1 + rng.random() / 5)
            server.kill()
            for thread in pairs[-1].threads:
                thread.join()
        server.start()
        server.wait_until_ready()
        for pair in pairs:
            for key in pair.asked:
                status, answer = api.call("POST", "/v1/jobs", json.loads(body()), headers(key))
                assert status == 201, answer
                known = pair.ids[key] | {answer["job_id"]}
                assert len(known) == 1, f"{key}: {known}"
                assert api.call("GET", f"/v1/jobs/{answer['job_id']}")[0] == 200
                interrupted += len(pair.ids[key]) == 0
        jobs = api.pages("/v1/jobs", "jobs")
        assert len(jobs) == sum(len(pair.asked) for pair in pairs), "one job for each key"
        assert interrupted > 0, "no kill came between a request and its answer: the test proved nothing"
    finally:
        api.close()
        server.stop()
