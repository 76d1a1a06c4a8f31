"""An end that the ledger refused is no end of its run: it must not be counted or shown as one."""

import numpy as np

from tickwheel.adapters.telemetry.console import Console
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.columns import COMPLETION, empty
from tickwheel.domain.run import RunState
from tickwheel.ports.events import AttemptsEnded
from tickwheel.testing.virtual_clock import VirtualClock


def test_a_refused_success_is_counted_as_refused_only() -> None:
    rows = empty(COMPLETION, 3)
    rows["state"], rows["finished_ms"] = RunState.SUCCEEDED, 1_790_000_000_000
    event = AttemptsEnded(rows=rows, applied=np.array([True, False, True]), notes={}, works=[None] * 3)
    metrics, lines = Metrics(), list[str]()
    metrics.emit(event)
    Console(write=lines.append, clock=VirtualClock(), colors=False).emit(event)
    assert metrics.state_count("SUCCEEDED") == 2
    assert "tickwheel_stale_completions_total 1.0" in metrics.render().decode()
    assert len(lines) == 2
