"""The load: mixed jobs, created and some of them cancelled while the server is being killed."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .api import Api

RETRY = {"max_retries": 8, "initial_interval_sec": 1, "backoff_multiplier": 1.5, "max_interval_sec": 3}
KINDS = ("ok", "ok", "ok", "instant", "slow", "flaky", "never", "cancel", "once")
THREADS = 6
BATCH = 50


@dataclass
class Plan:
    """What was acknowledged. Guarded by `lock`."""

    kinds: dict[str, str] = field(default_factory=dict)  # job id -> kind
    keys: dict[str, str] = field(default_factory=dict)  # idempotency key -> job id
    cancelled_ms: dict[str, int] = field(default_factory=dict)  # job id -> when the cancel had answered
    crons: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Load:
    """Creates `count` jobs over `seconds`, from several threads; `run` returns when all are acknowledged."""

    def __init__(self, port: int, sink_port: int, count: int, seconds: float, seed: int) -> None:
        self._port, self._sink, self._count, self._seconds = port, f"http://127.0.0.1:{sink_port}", count, seconds
        self._seed = seed
        self.plan = Plan()

    def run(self) -> None:
        with Api(self._port) as api:
            self._create_crons(api)
        threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _create_crons(self, api: Api) -> None:
        for number in range(3):
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
        try:
            with Api(self._port) as api:
                self._work(number, api)
        except Exception as error:
            with self.plan.lock:
                self.plan.faults.append(f"load thread {number}: {type(error).__name__}: {error}")

    def _work(self, number: int, api: Api) -> None:
        rng = random.Random(self._seed * 100 + number)
        mine = self._count // THREADS + (number < self._count % THREADS)
        began, made, to_cancel = time.monotonic(), 0, []
        while made < mine:
            size = min(mine - made, BATCH if rng.random() < 0.4 else 1)
            jobs = [self._job(rng, f"{number}-{made + n}") for n in range(size)]
            for job_id, kind in self._create(api, jobs):
                if kind == "cancel":
                    to_cancel.append((time.monotonic() + rng.random() * 2, job_id))
            made += size
            self._cancel_due(api, to_cancel)
            ahead = made / mine * self._seconds - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
        while to_cancel:
            self._cancel_due(api, to_cancel)
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
        elif rng.random() < 0.5:
            body |= {"schedule_type": "DELAYED", "delay_seconds": rng.randint(1, 8)}
        else:
            due_ms = time.time_ns() // 1_000_000 + rng.randint(0, 8_000)
            body |= {"schedule_type": "ONE_OFF", "run_at_epoch_ms": due_ms}
        return kind, body

    def _create(self, api: Api, jobs: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
        if len(jobs) == 1:
            status, answer = api.call("POST", "/v1/jobs", jobs[0][1])
            assert status == 201, answer
            answers = [answer]
        else:
            status, answer = api.call("POST", "/v1/jobs/batch", [body for _, body in jobs])
            assert status in (200, 201), answer
            answers = answer["results"]
        created = []
        with self.plan.lock:
            for (kind, body), item in zip(jobs, answers, strict=True):
                assert "job_id" in item, item
                self.plan.kinds[item["job_id"]] = kind
                self.plan.keys[body["idempotency_key"]] = item["job_id"]
                created.append((item["job_id"], kind))
        return created

    def _cancel_due(self, api: Api, to_cancel: list[tuple[float, str]]) -> None:
        for entry in [e for e in to_cancel if e[0] <= time.monotonic()]:
            to_cancel.remove(entry)
            status, answer = api.call("POST", f"/v1/jobs/{entry[1]}/cancel")
            if status == 200 and answer["status"] == "CANCELLED":
                with self.plan.lock:
                    self.plan.cancelled_ms[entry[1]] = time.time_ns() // 1_000_000
            else:
                assert status == 409, (status, answer)  # it was over before the cancel came
