"""CPU time of sealing and opening two headers, apart from all else: `python bench/sealing_parts.py [--jobs N]`.

What a job's secrets cost when it is made (`settle`), and what an attempt's header lines cost (`lines`), beside two
headers of the same length that are stored as they are. Values are the same in all jobs (`shared`), or another in
each (`distinct`: no cache helps). Microseconds per job, medians of 9 turns. The last line is flat JSON.
"""

import argparse
import hashlib
import json
from statistics import median
from time import thread_time

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.adapters.webhook.headers import header_lines
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.ports.executor import Work
from tickwheel.services.sealing import Sealing

KEY = SecretKey("k", hashlib.sha256(b"k").digest())
NAMES = {"sealed": ("Authorization", "X-Api-Key"), "plain": ("Accept-Language", "Pragma")}
VALUE = "0123456789abcdef0123456789abcdef"
TURNS = 9


def request(number: int, names: tuple[str, str]) -> JobRequest:
    target = {"endpoint": "https://a.example/x", "headers": dict.fromkeys(names, f"{VALUE}{number:08d}")}
    return parse_job_request(
        json.dumps({"schedule_type": "DELAYED", "delay_seconds": 60, "target": target}).encode()
    )


def work_of(number: int, settled: JobRequest) -> Work:
    return Work(
        slot=0,
        job_id=number.to_bytes(16, "big"),
        scheduled_ms=1,
        fence=number,
        attempt=1,
        max_attempts=4,
        lane=2,
        tenant_id=settled.tenant_id,
        target=settled.spec.target,
        payload=b"{}",
        idempotency_key=None,
    )


def turn(names: tuple[str, str], jobs: int, distinct: bool) -> tuple[float, float]:
    """With vaults that have sealed and opened something before, but nothing of these."""
    sealing, opening = Sealing(KeyVault([KEY])), KeyVault([KEY])
    requests = [request(number if distinct else 0, names) for number in range(jobs)]
    sealing.settle(request(jobs + 1, names))
    opening.open(opening.seal("a", "b"), "b")
    began = thread_time()
    settled = [sealing.settle(one) for one in requests]
    sealed = thread_time()
    works = [work_of(number, one) for number, one in enumerate(settled)]
    waited = thread_time()
    for work in works:
        header_lines(work, 1, (), opening)
    return (sealed - began) / jobs * 1e6, (thread_time() - waited) / jobs * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3_000)
    options = parser.parse_args()
    told: dict[str, float] = {"jobs": options.jobs}
    for word, distinct in (("shared", False), ("distinct", True)):
        turns: dict[str, list[tuple[float, float]]] = {kind: [] for kind in NAMES}
        for _ in range(TURNS):
            for kind, names in NAMES.items():
                turns[kind].append(turn(names, options.jobs, distinct))
        for kind, taken in turns.items():
            told[f"{word}_{kind}_settle_us"] = round(median(settle for settle, _ in taken), 1)
            told[f"{word}_{kind}_lines_us"] = round(median(lines for _, lines in taken), 1)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
