"""Gives each event to several sinks."""

from collections.abc import Sequence

from tickwheel.ports.events import Event, EventSink


class Fanout:
    """An `EventSink` over others."""

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)

    def emit(self, event: Event) -> None:
        for sink in self._sinks:
            sink.emit(event)
