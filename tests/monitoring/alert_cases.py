"""For each alert: series that must raise it, and calmer ones that must not.

Values are in the notation of promtool, one per step: `0+5x60` rises by 5 from 0, sixty times.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Case(NamedTuple):
    """`bad` raises the alert within so many steps; `calm`, with the same series, does not."""

    bad: Mapping[str, str]
    calm: Mapping[str, str]
    steps: int = 20
    step_minutes: int = 1


def _one(series: str, bad: str, calm: str, steps: int = 20) -> Case:
    return Case({series: bad}, {series: calm}, steps)


def _burning(late: str, calm: str, steps: int, step_minutes: int) -> Case:
    fixed = {
        'tickwheel_slo_target_ratio{objective="HIGH",instance="a"}': f"0.999x{steps}",
        'tickwheel_slo_starts_total{objective="HIGH",instance="a"}': f"0+1000x{steps}",
    }
    series = 'tickwheel_slo_late_total{objective="HIGH",instance="a"}'
    return Case({**fixed, series: late}, {**fixed, series: calm}, steps, step_minutes)


_CLAIMS = 'tickwheel_store_seconds_bucket{verb="claim",le="%s"}'

CASES: Mapping[str, Case] = {
    "TickwheelLostEvents": _one("tickwheel_lost_events_total", "0x5 1x20", "0x25"),
    "TickwheelChainsMended": _one("tickwheel_chains_mended_total", "0x5 1x20", "3x25"),
    "TickwheelStraySlots": _one("tickwheel_stray_slots", "2x25", "2x5 0x20"),
    # One in a thousand may be late, of 1,000 starts per step: one per step burns at rate 1.
    "TickwheelBudgetBurnsFast": _burning("0+15x70", "0+14x70", 70, 1),
    "TickwheelBudgetBurnsSteadily": _burning("0+7x80", "0+5x80", 80, 5),
    "TickwheelBudgetBurnsSlowly": _burning("0+1.1x160", "0+0.9x160", 160, 5),
    "TickwheelWaitsForSlots": _one("tickwheel_oldest_due_seconds", "90x20", "50x20"),
    "TickwheelWaitsForWorkers": _one('tickwheel_worker_oldest_due_seconds{lane="HIGH"}', "150x20", "110x20"),
    "TickwheelOverdue": _one("tickwheel_overdue", "3x20", "0x20"),
    "TickwheelDeadLetters": _one('tickwheel_runs_total{state="FAILED"}', "7x12 8x8", "7x20"),
    "TickwheelAttemptsFail": Case(
        {
            'tickwheel_attempts_total{outcome="success"}': "0+70x40",
            'tickwheel_attempts_total{outcome="timeout"}': "0+30x40",
        },
        {
            'tickwheel_attempts_total{outcome="success"}': "0+90x40",
            'tickwheel_attempts_total{outcome="timeout"}': "0+10x40",
        },
        40,
    ),
    "TickwheelStaleCompletions": _one("tickwheel_stale_completions_total", "0+2x60", "0+0.5x60", 60),
    "TickwheelHandlersMissing": _one("tickwheel_runs_unserved_total", "0+1x60", "5x60", 60),
    "TickwheelScheduleFails": _one("tickwheel_schedule_failures_total", "0+1x20", "4x20"),
    "TickwheelNotificationsDropped": _one('tickwheel_notifications_total{outcome="dropped"}', "0x12 1x8", "2x20"),
    "TickwheelStoreSlow": Case(
        {_CLAIMS % "1.0": "0+10x20", _CLAIMS % "2.5": "0+100x20", _CLAIMS % "+Inf": "0+100x20"},
        {_CLAIMS % "1.0": "0+100x20", _CLAIMS % "2.5": "0+100x20", _CLAIMS % "+Inf": "0+100x20"},
    ),
    "TickwheelLoopFails": _one('tickwheel_loop_failures_total{loop="claims"}', "0+2x20", "0x5 1x15"),
    "TickwheelShedding": _one("tickwheel_shedding", "1x20", "1x3 0x17"),
    "TickwheelQueueGrows": _one('tickwheel_queue_depth{lane="LOW"}', "20000x20", "500x20"),
    "TickwheelFeedLags": _one('tickwheel_feed_lag_seconds{instance="a"}', "8x20", "0.1x20"),
    "TickwheelNodeDown": _one('up{instance="a"}', "1x5 0x20", "1x25"),
    "TickwheelShardsUnowned": Case(
        {
            'tickwheel_shards{instance="a"}': "256x20",
            'tickwheel_shards_held{instance="a"}': "100x20",
            'tickwheel_shards_held{instance="b"}': "155x20",
        },
        {
            'tickwheel_shards{instance="a"}': "256x20",
            'tickwheel_shards_held{instance="a"}': "100x20",
            'tickwheel_shards_held{instance="b"}': "156x20",
        },
    ),
    "TickwheelNoLeader": Case(
        {"tickwheel_leader": "0x20", "tickwheel_node_fit": "1x20"},
        {"tickwheel_leader": "0x20"},  # one that is alone on its store leads nobody
    ),
    "TickwheelMembershipFrozen": _one("tickwheel_membership_frozen", "1x20", "0x20"),
    "TickwheelClockOff": _one('tickwheel_clock_difference_seconds{instance="a"}', "-1.5x20", "0.2x20"),
}
