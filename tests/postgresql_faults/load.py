"""Jobs created one by one all through a fault, what each request was answered, and the verdict at the end."""

import http.client
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from ..acceptance.crash.api import Api
from ..acceptance.crash.checker import Verdict, check
from ..acceptance.crash.load import Plan, now_ms
from ..acceptance.crash.scenario import settle

TIMEOUT_S = 20
PAUSE_S = 0.01
GIVE_UP_S = 60
RETRY = {"max_retries": 8, "initial_interval_sec": 1, "backoff_multiplier": 1.5, "max_interval_sec": 3}


@dataclass(frozen=True)
class Answer:
    """To one request. `status` 0: the connection failed or nothing came."""

    at_s: float
    status: int
    retry_after: str | None
    took_s: float


class SteadyLoad:
    """One thread per node creates a webhook every few milliseconds, due within seconds, from entering to leaving.

    A request that failed is repeated under its key until it is acknowledged, as clients do.
    """

    def __init__(
        self, ports: Sequence[int], sink_port: int, *, pause_s: float = PAUSE_S, prefix: str = ""
    ) -> None:
        self._ports, self._endpoint, self._pause_s = ports, f"http://127.0.0.1:{sink_port}/ok", pause_s
        self._prefix = prefix
        self.plan = Plan()
        self.answers: list[Answer] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._create_all, args=(port,)) for port in ports]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def during(self, from_s: float, to_s: float) -> list[Answer]:
        """Answers to requests that were sent in between (`time.monotonic`)."""
        return [answer for answer in self.answers if from_s <= answer.at_s < to_s]

    def acknowledged_since(self, from_s: float) -> int:
        """How many jobs were created by requests sent after that."""
        return sum(answer.status == 201 for answer in self.during(from_s, float("inf")))

    def longest_outage_s(self) -> float:
        """The longest time without any acknowledged job."""
        times = sorted(answer.at_s + answer.took_s for answer in self.answers if answer.status == 201)
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def verdict(self, log: Path, *, frozen: bool = False, ports: Sequence[int] = ()) -> Verdict:
        """Once the load is over: wait for the ends of all runs and look at everything."""
        with Api(*(ports or self._ports)) as api:
            settle(api, self.plan)
            return check(api, self.plan, log, frozen=frozen)

    def _create_all(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        number = 0
        while not self._over.is_set():
            self._create_one(connection, f"{self._prefix}{port}-{number}")
            number += 1
            self._over.wait(self._pause_s)
        connection.close()

    def _create_one(self, connection: http.client.HTTPConnection, key: str) -> None:
        body = json.dumps(
            {
                "schedule_type": "ONE_OFF",
                "run_at_epoch_ms": now_ms() + 1_000,
                "target": {"type": "HTTP_WEBHOOK", "endpoint": self._endpoint},
                "retry_policy": RETRY,
                "idempotency_key": key,
            }
        )
        ends = time.monotonic() + GIVE_UP_S
        while time.monotonic() < ends:
            answer, job_id = self._post(connection, body)
            self.answers.append(answer)
            if job_id is not None:
                with self.plan.lock:
                    self.plan.kinds[job_id] = "ok"
                return
            self._over.wait(0.05)
        self.plan.faults.append(f"{key} was not acknowledged in {GIVE_UP_S} s")

    def _post(self, connection: http.client.HTTPConnection, body: str) -> tuple[Answer, str | None]:
        began = time.monotonic()
        status, retry_after, job_id = 0, None, None
        try:
            connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            status, retry_after = reply.status, reply.headers["Retry-After"]
            told = json.loads(reply.read())
            job_id = told["job_id"] if status == 201 else None
        except (OSError, http.client.HTTPException):
            connection.close()
        return Answer(began, status, retry_after, time.monotonic() - began), job_id
