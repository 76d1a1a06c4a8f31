"""The load: mixed jobs, created, moved to another instant and cancelled while the servers are being killed."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .api import Api

RETRY = {"max_retries": 8, "initial_interval_sec": 1, "backoff_multiplier": 1.5, "max_interval_sec": 3}
KINDS = ("ok", "ok", "ok", "instant", "slow", "flaky", "never", "cancel", "once", "moved")
THREADS = 6
BATCH = 50
KEY_LIMIT_S = 60


@dataclass
class Plan:
    """What was acknowledged. Guarded by `lock`."""

    kinds: dict[str, str] = field(default_factory=dict)  # job id -> kind
    keys: dict[str, str] = field(default_factory=dict)  # idempotency key -> job id
    cancelled_ms: dict[str, int] = field(default_factory=dict)  # job id -> when the cancel had answered
    moved_ms: dict[str, int] = field(default_factory=dict)  # job id -> the instant it was moved to
    crons: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    repeated: int = 0  # requests that had to be sent again
    longest_s: float = 0.0  # until one was answered, repeats included
    lock: threading.Lock = field(default_factory=threading.Lock)


class Load:
    """Creates `count` jobs over `seconds`, from several threads; `run` returns when all are acknowledged.

    The threads start with one of the ports each, and go on with the next one where a node doesn't answer.
    """

    def __init__(
        self, ports: Sequence[int], sink_port: int, count: int, seconds: float, seed: int, crons: int = 3
    ) -> None:
        self._ports, self._sink, self._count, self._seconds = (
            ports,
            f"http://127.0.0.1:{sink_port}",
            count,
            seconds,
        )
        self._seed, self._crons = seed, crons
        self.plan = Plan()

    def run(self) -> None:
        with Api(*self._ports) as api:
            self._create_crons(api)
            self._count_calls(api)
        threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _create_crons(self, api: Api) -> None:
        for number in range(self._crons):
            body = {
                "job_name": f"cron-{number}",
                "schedule_type": "CRON",
                "cron_expression": "* * * * * *",
                "target": {"type": "HTTP_WEBHOOK", "endpoint": f"{self._sink}/ok"},
                "retry_policy": RETRY,
                "catch_up": {"policy": "fire_all", "max": 1000},
                "idempotency_key": f"cron-{number}",
            }
            status, answer = api.call("POST", "/v1/jobs", body)
            assert status == 201, answer
            self.plan.crons.append(answer["job_id"])

    def _guarded(self, number: int) -> None:
        turn = number % len(self._ports)
        with Api(*self._ports[turn:], *self._ports[:turn]) as api:
            try:
                self._work(number, api)
            except Exception as error:
                with self.plan.lock:
                    self.plan.faults.append(f"load thread {number}: {type(error).__name__}: {error}")
            self._count_calls(api)

    def _count_calls(self, api: Api) -> None:
        with self.plan.lock:
            self.plan.repeated += api.repeated
            self.plan.longest_s = max(self.plan.longest_s, api.longest_s)

    def _work(self, number: int, api: Api) -> None:
        rng = random.Random(self._seed * 100 + number)
        mine = self._count // THREADS + (number < self._count % THREADS)
        began, made = time.monotonic(), 0
        changes: list[tuple[float, str, str]] = []
        while made < mine:
            size = min(mine - made, BATCH if rng.random() < 0.4 else 1)
            jobs = [self._job(rng, f"{number}-{made + n}") for n in range(size)]
            for job_id, kind in self._create(api, jobs):
                if kind in ("cancel", "moved"):
                    changes.append((time.monotonic() + rng.random() * 2, job_id, kind))
            if number == 0 and self.plan.crons:
                self._edit_cron(api, rng.choice(self.plan.crons), made)
            made += size
            self._change_due(api, changes, rng)
            ahead = made / mine * self._seconds - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
        while changes:
            self._change_due(api, changes, rng)
            time.sleep(0.02)

    def _job(self, rng: random.Random, name: str) -> tuple[str, dict[str, Any]]:
        kind = rng.choice(KINDS)
        path = {"slow": "/slow", "flaky": "/flaky", "never": "/never"}.get(kind, "/ok")
        body: dict[str, Any] = {
            "job_name": f"{kind}-{name}",
            "target": {"type": "HTTP_WEBHOOK", "endpoint": self._sink + path},
            "payload": {"name": name},
            "priority": rng.choice(("CRITICAL", "HIGH", "DEFAULT", "LOW")),
            "retry_policy": {**RETRY, "max_retries": 1} if kind == "never" else dict(RETRY),
            "idempotency_key": f"key-{self._seed}-{name}",
        }
        if kind == "once":
            body["retry_policy"]["max_retries"] = 0
        if kind == "instant":
            body["schedule_type"] = "INSTANT"
        elif kind != "moved" and rng.random() < 0.5:
            body |= {"schedule_type": "DELAYED", "delay_seconds": rng.randint(1, 8)}
        else:
            body |= {"schedule_type": "ONE_OFF", "run_at_epoch_ms": now_ms() + rng.randint(0, 8_000)}
        return kind, body

    def _create(self, api: Api, jobs: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
        """(job id, kind) of each. A key that another node still holds, because it was frozen, is tried again."""
        made: list[tuple[str, str]] = []
        deadline = time.monotonic() + KEY_LIMIT_S
        while jobs:
            again = []
            for (kind, body), item in zip(jobs, self._post(api, [body for _, body in jobs]), strict=True):
                if "job_id" in item:
                    made.append((item["job_id"], kind))
                    with self.plan.lock:
                        self.plan.kinds[item["job_id"]] = kind
                        self.plan.keys[body["idempotency_key"]] = item["job_id"]
                else:
                    assert time.monotonic() < deadline, item
                    again.append((kind, body))
            jobs = again
            if jobs:
                time.sleep(0.5)
        return made

    def _post(self, api: Api, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(bodies) == 1:
            status, answer = api.call("POST", "/v1/jobs", bodies[0])
            assert status in (201, 409), answer
            return [answer]
        status, answer = api.call("POST", "/v1/jobs/batch", bodies)
        assert status in (200, 201, 207), answer
        results: list[dict[str, Any]] = answer["results"]
        return results

    def _change_due(self, api: Api, changes: list[tuple[float, str, str]], rng: random.Random) -> None:
        for entry in [e for e in changes if e[0] <= time.monotonic()]:
            changes.remove(entry)
            if entry[2] == "cancel":
                self._cancel(api, entry[1])
            else:
                self._move(api, entry[1], now_ms() + rng.randint(500, 4_000))

    def _cancel(self, api: Api, job_id: str) -> None:
        status, answer = api.call("POST", f"/v1/jobs/{job_id}/cancel")
        if status == 200 and answer["status"] == "CANCELLED":
            with self.plan.lock:
                self.plan.cancelled_ms[job_id] = now_ms()
        else:
            assert status == 409, (status, answer)  # it was over before the cancel came

    def _move(self, api: Api, job_id: str, to_ms: int) -> None:
        status, answer = api.call("PATCH", f"/v1/jobs/{job_id}", {"run_at_epoch_ms": to_ms})
        if status == 200:
            with self.plan.lock:
                self.plan.moved_ms[job_id] = to_ms
        else:
            assert status == 409, (status, answer)  # it ran already

    def _edit_cron(self, api: Api, job_id: str, number: int) -> None:
        """Its occurrences go on as before."""
        status, answer = api.call("PATCH", f"/v1/jobs/{job_id}", {"payload": {"edit": number}})
        assert status == 200, (status, answer)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
