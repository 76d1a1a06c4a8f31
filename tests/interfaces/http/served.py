"""The API on a real port, in a thread of its own, with all it may have, on the memory store; nothing fires."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.domain.columns import Rows
from tickwheel.domain.scaling import LaneLoad
from tickwheel.domain.slo import parse_objectives
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.ports.events import Event
from tickwheel.ports.tokens import TokenVerifier
from tickwheel.ports.vault import NO_VAULT
from tickwheel.services.api_keys import ApiKeys
from tickwheel.services.authentication import Authentication
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.explanations import Explanations
from tickwheel.services.jobs import Jobs
from tickwheel.services.live.forecasting import Forecasting
from tickwheel.services.live.overview import Lookout
from tickwheel.services.live.pulse import Pulse
from tickwheel.services.live.recent import Recent
from tickwheel.services.load import Demand
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.punctuality import Punctuality
from tickwheel.services.quotas import Quotas
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.runs import Runs
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.services.tenants import Tenants

from ...services.notifying.stage import FakeCourier


class Ignored:
    """Takes events and keeps none."""

    def emit(self, event: Event) -> None: ...


class IdleOwner:
    """Takes hints and does nothing."""

    def arm(self, timers: Rows) -> None: ...

    def forget_work(self, job_id: bytes) -> None: ...

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None: ...


@contextmanager
def served(*, tokens: Sequence[str] = (), verifier: TokenVerifier | None = None) -> Iterator[str]:
    """The address of a server that lives as long as the block; without tokens everybody may do everything."""
    ready = threading.Event()
    found: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = []

    async def serve() -> None:
        clock, randomness, owner = SystemClock(), SystemRandomness(), IdleOwner()
        store = MemoryStore(clock)
        desk = WorkerDesk(
            store=store,
            queue=MemoryQueue(clock, 5_000),
            clock=clock,
            randomness=randomness,
            events=Ignored(),
            arm=owner.arm,
            lease_length_ms=30_000,
        )
        keys, tenants = ApiKeys(store, clock, randomness), Tenants(store, clock)
        quotas, signing = Quotas(tenants, store, clock), SigningSecrets(store, NO_VAULT, clock, randomness)
        jobs = Jobs(store, owner, clock, randomness)
        jobs.limit_by(quotas)
        jobs.seal_by(Sealing(NO_VAULT, signing.knows))
        pulse = Pulse(
            Recent(clock),
            None,
            ownership=lambda: None,
            is_leader=lambda: True,
            name="here",
            version="1.0",
            roles=("api",),
        )
        deps = Deps(
            jobs=jobs,
            runs=Runs(store, owner, clock),
            dead_letters=DeadLetters(store, owner, clock),
            store=store,
            clock=clock,
            metrics=lambda: b"up 1\n",
            authentication=Authentication(clock, tokens=tokens, keys=keys, verifier=verifier),
            workers=desk,
            demand=Demand(loads=lambda: [[LaneLoad()]], states=list, clock=clock),
            punctuality=Punctuality(parse_objectives(["HIGH=99.9%@1s"]), clock, "here"),
            lookout=Lookout(pulse, store, clock),
            forecasting=Forecasting(store, clock),
            explanations=Explanations(store, clock, lambda target, tenant_id: None),
            api_keys=keys,
            registry=store,
            signing_secrets=signing,
            tenants=tenants,
            quotas=quotas,
            notifications=NotificationRules(store, FakeCourier(clock.now_ms), clock),
        )
        desk.start()
        server = HttpServer(build_app(deps), "127.0.0.1", 0, drain_seconds=1)
        await server.start()
        stop = asyncio.Event()
        found.append((asyncio.get_running_loop(), stop, server.url))
        ready.set()
        await stop.wait()
        desk.stop_polls()
        await server.stop()
        await desk.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    loop, stop, url = found[0]
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
