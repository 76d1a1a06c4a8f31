"""`tickwheel.Worker`: executes runs in this process, for a server or a store elsewhere."""

import asyncio
import signal
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from tickwheel.config import ServerTrust, Settings, WorkerOptions
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.interfaces.worker.concurrency import MOST, checked_concurrency
from tickwheel.interfaces.worker.own_tenant import find_tenant_problem
from tickwheel.wiring import WorkerProcess, open_worker, registered_handlers

if TYPE_CHECKING:
    from tickwheel.wiring import Handlers

DEFAULT_CONCURRENCY: Final = 10
DEFAULT_GRACE_SECONDS: Final = 10.0
MAX_GRACE_SECONDS: Final = 3_600


class Worker:
    """Takes runs and calls the handlers that are registered in this program.

    `Worker(server="http://scheduler:8080", token="…", app="app:app", concurrency=50).run()`

    It takes work from a `server` (or several nodes of one cluster, whichever answers), or straight from the
    `store` and `queue` that the servers use. `app` names a module with handlers (`module` or `module:object`);
    `handlers` gives a set of them; with neither, those registered through `tickwheel.handler` are used.
    `concurrency` is the number of runs at a time, or a pair (least, most) between which the worker finds it by
    itself. `ca_file`, `client_cert` and `client_key` are as in `Client`. `prefetch` runs are taken ahead of free
    slots (None: by how short runs are). With a store and a `tenant_id` it gets runs of that tenant only; over HTTP
    the token says so.

    `run` blocks until SIGTERM or Ctrl-C; `run_async` until it is cancelled; `async with` starts and stops. However
    it stops, what runs gets `grace_seconds` to end, and the rest is handed back.
    """

    def __init__(
        self,
        *,
        server: str | Sequence[str] | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        store: str | None = None,
        queue: str | None = None,
        app: str = "",
        handlers: "Handlers | None" = None,
        concurrency: int | tuple[int, int] = DEFAULT_CONCURRENCY,
        prefetch: int | None = None,
        webhooks: bool = False,
        name: str = "",
        tenant_id: str | None = None,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None:
        """Raises `ConfigError` with everything that is wrong with the arguments."""
        servers = (server,) if isinstance(server, str) else tuple(server or ())
        trust = ServerTrust(ca_file=ca_file, client_cert=client_cert, client_key=client_key)
        problems = [
            *_problems(servers, store, app, handlers),
            *trust.problems(),
            *_number_problems(prefetch, grace_seconds),
        ]
        tenant_problem = find_tenant_problem(servers, tenant_id)
        if tenant_problem is not None:
            problems.append(FieldProblem("tenant_id", tenant_problem))
        low, high = checked_concurrency(concurrency, problems)
        if problems:
            raise ConfigError(problems)
        self._settings = Settings(store=store or "", queue=queue or "", app=app)
        self._options = WorkerOptions(
            servers=servers,
            token=token,
            trust=trust,
            name=name,
            low=low,
            high=high,
            prefetch=prefetch,
            webhooks=webhooks,
            tenant_id=tenant_id,
        )
        self._handlers, self._grace_ms = handlers, int(grace_seconds * 1000)
        self._running: WorkerProcess | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def busy(self) -> int:
        """Runs that it executes now."""
        return 0 if self._running is None else self._running.loop.busy

    async def start(self) -> None:
        """Begin to take work. Raises what keeps it from that: a server that does not answer, a wrong token."""
        if self._running is not None:
            raise RuntimeError("this worker runs already")
        running = await open_worker(self._settings, self._options, self._registered(), with_logs=False)
        await running.start()
        self._running = running

    async def stop(self) -> None:
        """Let what runs end, hand back the rest, leave. Again: nothing."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop(self._grace_ms)

    async def run_async(self) -> None:
        """Work until the caller cancels this."""
        async with self:
            await asyncio.Event().wait()

    def run(self) -> None:
        """Work until SIGTERM or Ctrl-C."""
        asyncio.run(self._run_until_signal())

    async def _run_until_signal(self) -> None:
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, asked.set)
        async with self:
            await asked.wait()

    def _registered(self) -> "Handlers | None":
        """None: those of the app."""
        if self._handlers is not None or self._settings.app:
            return self._handlers
        return registered_handlers()


def _problems(
    servers: Sequence[str], store: str | None, app: str, handlers: "Handlers | None"
) -> list[FieldProblem]:
    problems = []
    if servers and store:
        problems.append(FieldProblem("store", "doesn't go with server: a worker takes its work from one of them"))
    if not servers and not store:
        problems.append(FieldProblem("server", "is missing: name where work comes from, a server or a store"))
    if app and handlers is not None:
        problems.append(FieldProblem("handlers", "doesn't go with app: a worker has one set of handlers"))
    return problems


def _number_problems(prefetch: int | None, grace_seconds: float) -> list[FieldProblem]:
    problems = []
    if prefetch is not None and not (isinstance(prefetch, int) and 0 <= prefetch <= MOST):
        problems.append(FieldProblem("prefetch", f"must be a whole number from 0 to {MOST}, or None"))
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        problems.append(FieldProblem("grace_seconds", f"must be from 0 to {MAX_GRACE_SECONDS}"))
    return problems
