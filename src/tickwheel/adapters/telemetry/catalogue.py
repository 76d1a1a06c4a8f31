"""Every metric that a node can expose: name, type, labels and meaning, once, for `/metrics` and for the reference.

Label values come from code (lanes, states, verdicts, loops) or settings (objectives, tenants by opt-in), never
from requests. So the number of series does not grow with jobs, tenants, targets or workers.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

PREFIX: Final = "tickwheel_"


class Kind(StrEnum):
    """As Prometheus has them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Where(StrEnum):
    """Which nodes expose it."""

    ALL = "every node"
    FIRING = "nodes that fire"
    CLUSTER = "nodes of a cluster"
    CLUSTER_FIRING = "nodes of a cluster that fire"
    ALONE = "a node alone on its store"
    LEADER = "the node that leads"
    OPTED_IN = "nodes that fire, for what settings name"


class Family(msgspec.Struct, frozen=True):
    """One metric. `name` has neither the prefix nor a counter's `_total`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    where: Where = Where.ALL

    @property
    def shown(self) -> str:
        """As it is written in a query."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is Kind.COUNTER else ''}"


def _counter(name: str, text: str, *labels: str, where: Where = Where.ALL) -> Family:
    return Family(name, Kind.COUNTER, text, labels, where)


def _gauge(name: str, text: str, *labels: str, where: Where = Where.FIRING) -> Family:
    return Family(name, Kind.GAUGE, text, labels, where)


def _histogram(name: str, text: str, *labels: str, where: Where = Where.ALL) -> Family:
    return Family(name, Kind.HISTOGRAM, text, labels, where)


_C, _A, _L, _O = Where.CLUSTER, Where.ALONE, Where.LEADER, Where.OPTED_IN

GROUPS: Final = {
    "On time": (
        _histogram("lateness_seconds", "From due to handed to an executor here, or to workers elsewhere.", "lane"),
        _counter("triggers", "Runs that came due and were claimed for the first time.", "lane"),
        _gauge("oldest_due_seconds", "How long the oldest due timer has waited for a slot."),
        _gauge("oldest_held_seconds", "How long the oldest that waits for its target or a limit is due."),
        _gauge("backlog", "Due and waiting for a slot here.", "kind", "lane"),
        _gauge("overdue", "Jobs and runs due for over a minute and not claimed.", where=_L),
        _counter("slo_starts", "Starts that an objective is about.", "objective", where=_O),
        _counter("slo_late", "Those of them that were later than the objective allows.", "objective", where=_O),
        _gauge("slo_target_ratio", "Share of starts that an objective wants on time.", "objective", where=_O),
        _gauge("slo_bound_seconds", "Up to which lateness a start is on time.", "objective", where=_O),
        _histogram("tenant_lateness_seconds", "As lateness, by tenant.", "tenant", where=_O),
        _counter("tenant_attempts", "Attempts that ended, by tenant and outcome.", "tenant", "outcome", where=_O),
    ),
    "Attempts and runs": (
        _counter("attempts", "Attempts that ended, by outcome.", "outcome"),
        _counter("runs", "Runs moved at the end of an attempt, by new state.", "state"),
        _gauge("in_flight", "Attempts running here.", "kind"),
        _gauge("uncommitted_completions", "Ended attempts that are not committed yet."),
        _counter("stale_completions", "Completions refused because another attempt holds the run."),
        _counter(
            "leases_lost", "Attempts ended for their lease ran out, or their worker is proved dead.", "cause"
        ),
        _counter("runs_unserved", "Due runs of handlers that are not registered here."),
        _gauge("dead_letters", "Runs in the dead-letter queue.", where=_L),
        _gauge("jobs", "Jobs in the store.", where=_L),
        _gauge("waiting_timers", "Timers in the store.", where=_L),
    ),
    "Claims and the store": (
        _counter("claims", "Claims, by verdict.", "verdict"),
        _histogram("store_seconds", "How long calls of the store took, failed ones too.", "verb"),
        _histogram("store_batch_rows", "Rows per call of the store: jobs, timers, claims, ends.", "verb"),
        _counter("commits", "Calls of the store that wrote and are committed; some share a transaction.", "verb"),
        _counter("loop_failures", "Errors that a loop survived, such as a store that is away.", "loop"),
        _gauge("shedding", "1 while new jobs are refused (429).", where=Where.ALL),
        _counter("shed_requests", "Requests for new jobs that were refused (429).", "why"),
    ),
    "Timers": (
        _gauge("armed_timers", "Timers in the wheel."),
        _counter("timers_loaded", "Timers read from the store into the wheel."),
        _gauge("buffered_timers", "Timers in the buffer outside the process."),
        _counter("buffer_failures", "Minute buckets that were refused or lacked timers.", "what"),
        _gauge("parked_timers", "Due timers that are tried again after a pause."),
        _gauge("limited_timers", "Due timers that wait for a slot of a limit."),
        _gauge("tenant_held_timers", "Due timers that wait for the next second of their tenant's limit."),
        _gauge(
            "feed_lag_seconds", "Age of the last look at what others have committed.", where=Where.CLUSTER_FIRING
        ),
        _counter("schedule_failures", "Due occurrences whose schedule could not be planned."),
    ),
    "Targets": (
        _gauge("held_timers", "Due webhooks that wait for their host."),
        _gauge("held_by", "Due runs that wait for their target, by why.", "why"),
        _gauge("troubled_hosts", "Hosts that get fewer webhooks than allowed, by state.", "state"),
        _counter("hosts_opened", "Times that a host was left alone, by cause.", "cause"),
    ),
    "Workers elsewhere": (
        _gauge("needed_workers", "Workers that the load needs."),
        _gauge("workers", "Live workers."),
        _gauge("worker_slots", "Attempts that all workers can run at a time."),
        _gauge("worker_busy_slots", "Attempts that run at workers."),
        _gauge("worker_run_seconds", "Mean run time at workers."),
        _gauge("worker_needed_slots", "Slots that the load needs.", "lane"),
        _gauge("worker_backlog", "Due, and waiting for workers.", "lane"),
        _gauge("worker_arrivals_per_second", "Came due for workers, last minute.", "lane"),
        _gauge("worker_oldest_due_seconds", "How long the oldest that waits for workers has been due.", "lane"),
        _gauge("queue_depth", "Hints in the queue that no worker has taken.", "lane", where=_L),
        _counter("workers_lost", "Workers whose session was ended for them, by evidence.", "evidence"),
    ),
    "Cluster": (
        _gauge("shards", "Shards that there are."),
        _gauge("shards_held", "Shards whose timers this node fires."),
        _counter("shards_taken", "Shards taken; each has a new epoch.", "cause"),
        _counter("shards_left", "Shards given away or lost.", "cause"),
        _counter("members_lost", "Nodes that this one declared dead.", "evidence"),
        _counter("depositions", "Times that other nodes declared this one dead."),
        _gauge("membership_frozen", "1 while the coordinator can't be reached.", where=Where.ALL),
        _gauge("leader", "1 on the node that does the chores for all of a cluster.", where=Where.ALL),
        _gauge("node_fit", "1 while this node may own shards.", where=_C),
        _gauge("clock_difference_seconds", "This machine's wall clock minus the database's.", where=_C),
        _gauge("clock_behind_seconds", "Wall clock behind the scheduler's clock (slewed away).", where=_A),
        _counter("clock_steps_back", "Times that the machine's clock was set back."),
    ),
    "Notifications": (
        _counter("notifications", "Messages of rules: sent, failed to arrive (tried again), dropped.", "outcome"),
        _gauge("notifications_waiting", "Messages that are being sent or tried again.", where=_L),
    ),
    "Traces": (
        _counter("spans_exported", "Spans that the collector has taken."),
        _counter("spans_dropped", "Spans that found the queue full, or whose batch the collector didn't take."),
        _gauge("spans_waiting", "Spans that are not sent yet.", where=Where.ALL),
    ),
    "Must be zero": (
        _counter("lost_events", "Jobs and runs newly found that nothing will ever fire or end."),
        _gauge("unaccounted", "Those of the last lap of the standing check.", where=_L),
        _gauge("stray_slots", "Slots of limits of concurrency that no run holds.", where=_L),
        _counter("chains_mended", "Recurring jobs whose next timer was lost or double."),
    ),
    "Access and process": (
        _counter("quota_refusals", "Requests and new jobs refused for a limit of their tenant.", "limit"),
        _counter("unauthorized_requests", "Requests refused for want of a good token (401).", "why"),
        _gauge("build_info", "1; the label has the version.", "version", where=Where.ALL),
    ),
}
FAMILIES: Final = {family.name: family for families in GROUPS.values() for family in families}


def names(families: Iterable[Family]) -> list[str]:
    """As they are written in queries."""
    return [family.shown for family in families]
