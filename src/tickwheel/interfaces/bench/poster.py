"""Sends batches of jobs to a server over HTTP from a few threads, as fast as it answers or at a steady rate."""

import http.client
import threading
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tickwheel.interfaces.bench.outcome import BenchFailed

TIMEOUT_S = 60
TOO_MANY = 429
"""The server asks to wait, and says how long."""


def post_all(
    port: int,
    bodies: Iterable[bytes],
    *,
    connections: int,
    on_sent: Callable[[int], None],
    headers: Mapping[str, str] | None = None,
) -> int:
    """POST every body to /v1/jobs/batch; gives the number of jobs created. `on_sent` gets that of each body."""
    sent_headers = {"Content-Type": "application/json", **(headers or {})}
    waiting, lock = iter(bodies), threading.Lock()
    created: list[int] = []
    faults: list[str] = []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        while not faults:
            with lock:
                body = next(waiting, None)
            if body is None:
                break
            try:
                count = _post(connection, body, sent_headers)
            except (OSError, http.client.HTTPException, BenchFailed) as error:
                faults.append(f"{type(error).__name__}: {error}")
                break
            with lock:
                created.append(count)
                on_sent(count)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise BenchFailed(faults[0])
    return sum(created)


def _post(connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str]) -> int:
    while True:
        connection.request("POST", "/v1/jobs/batch", body, dict(headers))
        response = connection.getresponse()
        answer = response.read()
        if response.status != TOO_MANY:
            break
        threading.Event().wait(int(response.headers["Retry-After"]))
    if response.status not in (200, 201, 207):
        raise BenchFailed(f"the server answered {response.status}: {answer[:300].decode(errors='replace')}")
    return answer.count(b'"job_id"')


def handler_jobs(name: str, due_ms: Iterable[int], payload: str, *, keys: str = "") -> bytes:
    """A batch of one-off jobs for a handler, as JSON; `keys` begins their idempotency keys ("": none)."""
    return msgspec.json.encode(
        [
            {**handler_job(name, due, payload), **({"idempotency_key": f"{keys}-{number}"} if keys else {})}
            for number, due in enumerate(due_ms)
        ]
    )


def handler_job(name: str, due_ms: int, payload: str) -> dict[str, object]:
    """A one-off job for a handler."""
    return {
        "schedule_type": "ONE_OFF",
        "run_at_epoch_ms": due_ms,
        "target": {"type": "HANDLER", "name": name},
        "payload": msgspec.Raw(payload.encode()),
    }


def webhook_jobs(
    endpoint: str, due_ms: Iterable[int], payload: str, headers: Mapping[str, str] | None = None
) -> bytes:
    """A batch of one-off webhooks, as JSON."""
    target = {"type": "HTTP_WEBHOOK", "endpoint": endpoint, **({"headers": headers} if headers else {})}
    raw = msgspec.Raw(payload.encode())
    return msgspec.json.encode(
        [
            {
                "schedule_type": "ONE_OFF",
                "run_at_epoch_ms": due,
                "target": target,
                "payload": raw,
            }
            for due in due_ms
        ]
    )
