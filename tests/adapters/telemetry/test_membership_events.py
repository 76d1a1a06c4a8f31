"""What an operator sees of a cluster: bounded series, and a line for each thing that happened."""

import io
import json

from tickwheel.adapters.telemetry.logs import LogSink, configure_logs
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.ports.events import (
    Deposed,
    Event,
    LeadershipChanged,
    MemberLost,
    MembershipFrozen,
    ShardsLeft,
    ShardsTaken,
    WorkerLost,
)

STORY: tuple[Event, ...] = (
    ShardsTaken(count=200, held_count=200, cause="free"),
    ShardsLeft(count=72, held_count=128, cause="handed_over"),
    MemberLost(incarnation="node-b-01.1", proved=True, silent_ms=412),
    MemberLost(incarnation="node-c-02.1", proved=False, silent_ms=1_010),
    ShardsTaken(count=64, held_count=192, cause="takeover"),
    Deposed(incarnation="node-a-03.1", successor="node-a-03.2"),
    MembershipFrozen(frozen=True, error="no route"),
    LeadershipChanged(leads=True),
    WorkerLost(worker="worker-1", proved=False, silent_ms=15_200),
)


def series(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_metrics_tell_what_came_and_went_and_why() -> None:
    metrics = Metrics()
    for event in STORY:
        metrics.emit(event)
    shown = series(metrics)
    assert shown['tickwheel_workers_lost_total{evidence="silent"}'] == 1
    assert shown['tickwheel_shards_taken_total{cause="takeover"}'] == 64
    assert shown['tickwheel_shards_left_total{cause="handed_over"}'] == 72
    assert shown['tickwheel_members_lost_total{evidence="proved_dead"}'] == 1
    assert shown['tickwheel_members_lost_total{evidence="silent"}'] == 1
    assert shown["tickwheel_depositions_total"] == 1
    assert shown["tickwheel_membership_frozen"] == shown["tickwheel_leader"] == 1
    metrics.emit(MembershipFrozen(frozen=False))
    assert series(metrics)["tickwheel_membership_frozen"] == 0


def test_the_number_of_series_does_not_grow_with_the_nodes_that_come_and_go() -> None:
    metrics = Metrics()
    for event in STORY:
        metrics.emit(event)
    before = series(metrics).keys()
    for number in range(10_000):
        metrics.emit(MemberLost(incarnation=f"node-{number}.1", proved=True, silent_ms=400))
        metrics.emit(Deposed(incarnation=f"node-{number}.1", successor=f"node-{number}.2"))
    assert series(metrics).keys() == before


def test_each_event_is_one_line() -> None:
    stream = io.StringIO()
    configure_logs(log_format="json", log_level="info", stream=stream)
    sink = LogSink()
    for event in (*STORY, MembershipFrozen(frozen=False)):
        sink.emit(event)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "shards.taken",
        "shards.left",
        "member.lost",
        "member.lost",
        "shards.taken",
        "node.deposed",
        "membership.frozen",
        "leader.changed",
        "worker.lost",
        "membership.resumed",
    ]
