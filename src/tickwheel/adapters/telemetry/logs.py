"""Log lines through structlog: one dotted event with keys, nothing per run."""

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TextIO

import msgspec
import numpy as np
import structlog

from tickwheel.domain.ids import job_id_text
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.events import (
    AttemptsEnded,
    AuditEnded,
    BufferFailed,
    ChainMended,
    ClockDiffers,
    ClockStepped,
    Deposed,
    Event,
    HostClosed,
    HostOpened,
    IngestShedding,
    LeadershipChanged,
    LoopFailed,
    MemberLost,
    MembershipFrozen,
    NotificationEnded,
    RunsUnserved,
    ScheduleFailing,
    SessionEnded,
    ShardsLeft,
    ShardsTaken,
    StoreRefusing,
    TimersLoaded,
    WorkerLost,
    WorkerResized,
    WorkerStalled,
)

NEWS_MS: Final = 5_000
LEVELS: Final = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}


def configure_logs(*, log_format: str, log_level: str, node: str = "", stream: TextIO | None = None) -> None:
    """Set up structlog for this process: `text` for people, `json` for machines, to stderr.

    With `node` every line says which node speaks: of several that write to one place.
    """
    renderer = (
        structlog.processors.JSONRenderer(serializer=_as_json)
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=(stream or sys.stderr).isatty())
    )
    structlog.configure(
        processors=[
            *([_Name(node)] if node else []),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[log_level]),
        # A line and its end in one write: several processes may write to the same place.
        logger_factory=structlog.WriteLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    if not any(isinstance(handler, _Bridge) for handler in root.handlers):
        root.addHandler(_Bridge())


def _as_json(event: Mapping[str, Any], **options: Any) -> str:
    """A quarter of the time of `json`, which does what is left: escapes for terminals, types of a user's own."""
    try:
        text = msgspec.json.encode(event).decode()
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        text = ""
    return text if text and text.isascii() else json.dumps(event, **options)


class _Name:
    """Adds the name of the node to each line."""

    def __init__(self, node: str) -> None:
        self._node = node

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["node"] = self._node
        return event


class _Bridge(logging.Handler):
    """What libraries log (the HTTP server, asyncio, a user's handlers) comes out in the same form as our own."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or False)


class LogSink:
    """An `EventSink` that writes what an operator should read."""

    def __init__(self, *, tells_attempts: bool = False) -> None:
        """`tells_attempts`: one line for each that failed (at the level debug)."""
        self._log = structlog.get_logger()
        self._unserved_told: set[str] = set()
        self._tells_attempts = tells_attempts

    def emit(self, event: Event) -> None:
        match event:
            case LoopFailed():
                self._log.warning("loop.failed", loop=event.loop, error=event.error, retry_in_ms=event.retry_in_ms)
            case BufferFailed():
                self._log.warning(
                    "buffer.failed",
                    what=event.what,
                    buckets=event.buckets,
                    error=event.error,
                    remedy="none needed: these minutes are read from the store",
                )
            case ScheduleFailing():
                self._log.error("schedule.failing", job_id=job_id_text(event.job_id), error=event.error)
            case ChainMended():
                self._log.error("chain.mended", job_id=job_id_text(event.job_id), live_timers=event.live_count)
            case RunsUnserved():
                for name, count in event.counts.items():
                    if name not in self._unserved_told:
                        self._unserved_told.add(name)
                        self._log.warning(
                            "handler.missing",
                            handler=name,
                            waiting=count,
                            remedy="start a server or worker with --app MODULE that registers it; runs wait",
                        )
            case HostOpened():
                # One that asks for a moment each second is no news.
                news = event.cause == "failing" or event.pause_ms >= NEWS_MS
                tell = self._log.warning if news else self._log.debug
                tell(
                    "host.left_alone",
                    host=event.host,
                    cause=event.cause,
                    pause_ms=event.pause_ms,
                    waiting=event.waiting_count,
                )
            case HostClosed():
                tell = self._log.debug if event.open_ms < NEWS_MS else self._log.info
                tell("host.answers_again", host=event.host, after_ms=event.open_ms, waiting=event.waiting_count)
            case StoreRefusing(refuses=True):
                self._log.error("store.refuses_writes", error=event.error)
            case StoreRefusing():
                self._log.info("store.takes_writes", after_ms=event.after_ms)
            case IngestShedding(sheds=True):
                self._log.warning("ingest.shedding", why=event.why)
            case IngestShedding():
                self._log.info("ingest.resumed")
            case ClockStepped():
                self._log.warning("clock.stepped_back", behind_ms=event.behind_ms)
            case ClockDiffers():
                tell = self._log.warning if event.differs else self._log.info
                tell("clock.differs_from_store", difference_ms=event.difference_ms, differs=event.differs)
            case AuditEnded() if event.unaccounted:
                self._log.error("audit.unaccounted", count=event.unaccounted, examples=list(event.examples))
            case ShardsTaken():
                self._log.info("shards.taken", count=event.count, held=event.held_count, cause=event.cause)
            case ShardsLeft():
                self._log.info("shards.left", count=event.count, held=event.held_count, cause=event.cause)
            case MemberLost():
                self._log.warning(
                    "member.lost",
                    incarnation=event.incarnation,
                    proved_dead=event.proved,
                    silent_ms=event.silent_ms,
                    fired=event.fired,
                )
            case WorkerLost():
                self._log.warning(
                    "worker.lost", worker=event.worker, proved_dead=event.proved, silent_ms=event.silent_ms
                )
            case Deposed():
                self._log.warning("node.deposed", incarnation=event.incarnation, successor=event.successor)
            case MembershipFrozen(frozen=True):
                self._log.warning("membership.frozen", error=event.error)
            case MembershipFrozen():
                self._log.info("membership.resumed")
            case LeadershipChanged():
                self._log.info("leader.changed", leads=event.leads)
            case SessionEnded():
                self._log.warning("session.over", let_go=event.held_count)
            case WorkerStalled(stalled=True):
                self._log.error("worker.stalled", handed_back=event.handed_back)
            case WorkerStalled():
                self._log.info("worker.goes_on")
            case WorkerResized():
                self._log.debug("worker.resized", slots=event.slots, before=event.before)
            case NotificationEnded(outcome="sent"):
                self._log.debug("notification.sent", tenant_id=event.tenant_id, rule=event.rule, tries=event.tries)
            case NotificationEnded():
                tell = self._log.error if event.outcome == "dropped" else self._log.warning
                tell(
                    f"notification.{event.outcome}",
                    tenant_id=event.tenant_id,
                    rule=event.rule,
                    tries=event.tries,
                    error=event.error,
                )
            case TimersLoaded() if event.count:
                self._log.debug("timers.loaded", count=event.count, took_ms=event.took_ms)
            case AttemptsEnded():
                if event.stale_count:
                    self._log.info("completions.stale", count=event.stale_count)
                if self._tells_attempts:
                    self._tell_failures(event)
            case _:
                pass

    def _tell_failures(self, event: AttemptsEnded) -> None:
        for number in np.flatnonzero(event.rows["outcome"] != OutcomeClass.SUCCESS).tolist():
            work, row = event.works[number], event.rows[number]
            if work is None:
                continue
            known = {"job_id": work.job_id_text, "run_id": work.run_id, "tenant_id": work.tenant_id}
            if work.trace is not None:
                context = work.trace.context
                known |= {"trace_id": context.trace_id, "span_id": context.span_id}
            outcome = OutcomeClass(int(row["outcome"])).name.lower()
            self._log.debug("attempt.failed", attempt=work.attempt, outcome=outcome, **known)
