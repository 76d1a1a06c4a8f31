"""What a peer's workers noted: pairs of (number of the job, start - due in ms)."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from bench.peers.process import StepFailed

Calls = npt.NDArray[np.float64]


def read_calls(folder: Path) -> Calls:
    """Of all workers, one row per call."""
    parts = [np.fromfile(path, dtype=np.float64) for path in sorted(folder.glob("calls-*.bin"))]
    noted: Calls = np.concatenate(parts or [np.empty(0)]).reshape(-1, 2)
    return noted


def check_calls(calls: Calls, jobs: int) -> None:
    """StepFailed unless each job 0 .. jobs - 1 was called exactly once."""
    numbers = calls[:, 0].astype(np.int64)
    times = np.bincount(numbers, minlength=jobs) if len(numbers) else np.zeros(jobs, dtype=np.int64)
    if len(times) > jobs:
        raise StepFailed("a job was called that was not created")
    missing, again = int((times == 0).sum()), int((times > 1).sum())
    if missing or again:
        raise StepFailed(f"of {jobs} jobs {missing} were not called and {again} more than once")


def lateness(calls: Calls) -> dict[str, float]:
    """Percentiles of start - due, and how many started early (by more than rounding to a millisecond)."""
    late = calls[:, 1]
    p50, p99 = np.percentile(late, (50, 99))
    return {
        "late_p50_ms": round(float(p50), 1),
        "late_p99_ms": round(float(p99), 1),
        "late_max_ms": round(float(late.max()), 1),
        "early": int((late < -1).sum()),
    }
