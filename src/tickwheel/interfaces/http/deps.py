"""What the HTTP API is made of, handed in by the composition root."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.runs import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """`metrics` gives the Prometheus text; `tokens` empty = the API is open."""

    jobs: Jobs
    runs: Runs
    dead_letters: DeadLetters
    store: Store
    clock: Clock
    metrics: Callable[[], bytes]
    tokens: Sequence[str] = ()
