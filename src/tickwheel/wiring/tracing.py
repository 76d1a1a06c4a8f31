"""Traces from the settings: what makes spans of requests and attempts, and what exports them."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from importlib.metadata import version
from typing import Any

from tickwheel.adapters.otlp.exporter import OtlpExporter
from tickwheel.adapters.system import SystemRandomness
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.config import Settings
from tickwheel.config.trace_rules import otlp_headers, sampled_parts, traces_url
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.services.tracing.request_traces import RequestTraces
from tickwheel.services.tracing.run_spans import RunSpans


class Tracing:
    """Without an exporter, what comes with a request is passed on, and that is all."""

    def __init__(self, exporter: OtlpExporter | None, clock: Clock, sample_parts: int) -> None:
        self._exporter = exporter
        self.requests = RequestTraces(clock, SystemRandomness(), exporter, sample_parts)
        self.sinks: Sequence[EventSink] = () if exporter is None else (RunSpans(exporter, clock),)
        self._loop: asyncio.Task[None] | None = None

    def show(self, metrics: Metrics) -> None:
        """What was exported and dropped."""
        exporter = self._exporter
        metrics.show("spans_exported", lambda: 0 if exporter is None else exporter.exported_count)
        metrics.show("spans_dropped", lambda: 0 if exporter is None else exporter.dropped_count)
        metrics.show("spans_waiting", lambda: 0 if exporter is None else exporter.waiting_count)

    async def run(self) -> None:
        """Export for ever."""
        if self._exporter is not None:
            await self._exporter.run()

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let that run, which runs `run`."""
        if self._exporter is not None:
            self._loop = asyncio.create_task(run(), name="tickwheel-traces")

    async def aclose(self) -> None:
        """Export what waits. Again: nothing."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            await exporter.flush()
            exporter.close()


def open_tracing(settings: Settings, clock: Clock, name: str) -> Tracing:
    """Exports nothing before `start`; `name` is that of the node."""
    if not settings.otlp_endpoint:
        return Tracing(None, clock, 0)
    resource = {
        "service.name": "tickwheel",
        "service.version": version("tickwheel"),
        "service.instance.id": name,
    }
    headers = otlp_headers(settings.otlp_headers)
    exporter = OtlpExporter(traces_url(settings.otlp_endpoint), clock, resource, headers)
    return Tracing(exporter, clock, sampled_parts(settings.trace_sample))
