"""Every rule of the protocol whose loss must be noticed: what is dropped, where, and the scene that notices.

A rule that lives in a statement of the database is dropped by the model (`testing.model.rules`); one that lives in
the services is dropped by patching the real code. Those of workers apart from owners are in `worker_mutations`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import ClaimVerdict, Rows, empty
from tickwheel.domain.job import Job
from tickwheel.ports.shards import Pair, Snapshot, Taken
from tickwheel.services.changes import edit, hold
from tickwheel.services.changes.taken import Taken as TakenInstants
from tickwheel.services.claims import Claims
from tickwheel.services.gates.limit_gate import LimitGate
from tickwheel.services.inflight import InFlight
from tickwheel.services.loading import Loading
from tickwheel.services.ownership import ownership
from tickwheel.services.ownership.feed import Feed
from tickwheel.services.ownership.groups import Groups, Rank, ShardGroup
from tickwheel.services.ownership.membership import Membership
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.pairs import Pairs
from tickwheel.services.ownership.placement import Plan
from tickwheel.services.ownership.unresolved import Unresolved
from tickwheel.services.plans import Planner
from tickwheel.services.reaper import Reaper

from . import scenes_claims as claims
from . import scenes_feed as feeds
from .stage import Scene

Patch = Callable[[ExitStack], None]


class Mutation(NamedTuple):
    """`notices` are the names of violations of which one must come up."""

    rule: str
    dropped: str
    scene: Scene
    notices: Sequence[str]
    patch: Patch | None = None  # None: the model's statements leave the rule out

    @property
    def name(self) -> str:
        """For the list of tests."""
        return f"{self.rule}-{self.scene.__name__}"


def swap(target: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Put `make(original)` in the place of an attribute."""

    def enter(stack: ExitStack) -> None:
        stack.enter_context(patch.object(target, name, make(getattr(target, name))))

    return enter


def _fresh_snapshot_at_taking(original: Any) -> Any:
    def adopt(self: Groups, taken: Sequence[Taken]) -> None:
        for one in taken:
            self.add([one.shard], None, 0 if one.pair is None else one.pair.ack_ms)

    return adopt


def _position_of_the_node(original: Any) -> Any:
    def adopt(self: Groups, taken: Sequence[Taken]) -> None:
        main = self.main
        if main is None or main.prev is None:
            original(self, taken)
            return
        for one in taken:
            self.add([one.shard], main.prev, 0 if one.pair is None else one.pair.ack_ms)

    return adopt


def _forgets_limits_of_tenants(stack: ExitStack) -> None:
    nothing = property(lambda self: None, lambda self, limit_of: None)
    stack.enter_context(patch.object(Planner, "tenant_limit", nothing, create=True))


class _LateHi:
    """The groups as a feed sees them that arms only what is below the slices read so far."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    def arm_read(self, group: ShardGroup, timers: Rows) -> None:
        ahead = [gap.from_ms for gap in group.gaps if gap.rank is Rank.AHEAD]
        self._groups.arm_read(group, timers[timers["due_ms"] < min(ahead, default=group.hi_ms)])


def _hi_after_the_slice(original: Any) -> Any:
    def begin(self: Feed, **parts: Any) -> None:
        original(self, **{**parts, "groups": _LateHi(parts["groups"])})

    return begin


def _snapshot_at_storing(original: Any) -> Any:
    async def store(self: Pairs, side: Any) -> None:
        now = Snapshot((await self._shards.take_snapshot()).text)
        inner = self._intake.pairs

        def pairs(shards: Sequence[int]) -> Mapping[int, Pair]:
            return {shard: Pair(pair.ack_ms, now) for shard, pair in inner(shards).items()}

        with patch.object(self._intake, "pairs", pairs):
            await original(self, side)

    return store


def _never_back(original: Any) -> Any:
    def pairs(self: Loading, shards: Sequence[int]) -> Mapping[int, Pair]:
        stored = self._groups.stored
        return {
            shard: Pair(max(pair.ack_ms, stored[shard].ack_ms if shard in stored else 0), pair.snapshot)
            for shard, pair in original(self, shards).items()
        }

    return pairs


def _handed_over_is_resolved(original: Any) -> Any:
    def lowest_ms(self: Unresolved) -> Any:
        return self._unserved.floors.copy()

    return lowest_ms


def _no_rows(original: Any) -> Any:
    return lambda self: self.rows[:0] if isinstance(self, InFlight) else empty(np.dtype(original(self).dtype))


def _in_flight_is_resolved(stack: ExitStack) -> None:
    swap(InFlight, "unleased", _no_rows)(stack)
    swap(Reaper, "rows", _no_rows)(stack)


def _nobody_watches(original: Any) -> Any:
    return lambda self, *watched: None


def _two_at_once(original: Any) -> Any:
    async def run(self: Claims) -> None:
        await asyncio.gather(original(self), original(self))

    return run


def _starts_what_is_in_flight(original: Any) -> Any:
    def won(self: Claims, timers: Rows, answers: Rows) -> Any:
        original(self, timers, answers)
        mine: Any = np.isin(answers["verdict"], [ClaimVerdict.WON, ClaimVerdict.IN_FLIGHT])
        return mine

    return won


def _same_version(original: Any) -> Any:
    def redefined(job: Job, *rest: Any) -> Job | None:
        changed: Job | None = original(job, *rest)
        return None if changed is None else replace(changed, version=job.version)

    return redefined


def _nothing_is_settled(stack: ExitStack) -> None:
    for module in (edit, hold):
        swap(module, "settle_due", lambda original: lambda *seen: ())(stack)


def _name_is_identity(stack: ExitStack) -> None:
    swap(ownership, "process_name", lambda original: lambda name, randomness: name)(stack)
    swap(ownership, "incarnation_of", lambda original: lambda process, number: f"{process}.1")(stack)


def _silence_goes_on(original: Any) -> Any:
    def begin_anew(self: Membership, at_ms: int) -> None:
        self._answered_ms = at_ms

    return begin_anew


def _everybody_is_ranked(original: Any) -> Any:
    def candidates(members: Any, excluded: Any) -> Any:
        fit = [replace(member, note=NodeNote(name=member.note.name)) for member in members]
        return original(fit, excluded)

    return candidates


def _trusts_its_memory(original: Any) -> Any:
    def plan(**seen: Any) -> Plan:
        now: Plan = original(**seen)
        mine = {state.shard for state in seen["states"] if state.owner == seen["me"]}
        take = {shard: epoch for shard, epoch in now.take.items() if shard not in mine}
        return replace(now, take=take, disown={})

    return plan


class _NoRuns:
    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[None]:
        return [None] * len(keys)


def _sees_no_runs(original: Any) -> Any:
    def begin(self: LimitGate, ledger: Any, *rest: Any, **options: Any) -> None:
        original(self, _NoRuns(), *rest, **options)

    return begin


LOST = ("I1 lost",)
CHAIN = ("I9 chain", "I1 lost")
TOKENS = ("I3 tokens",)
TWICE = ("F1 started twice",)
AFTER = ("I7 after cancel",)
RESTLESS = ("G1 restless",)

MUTATIONS: Sequence[Mutation] = (
    Mutation("A1", "far timers carry no transaction id", feeds.far_insert, LOST),
    Mutation("A2", "due is not raised to the database's clock", feeds.insert_at_the_drop, LOST),
    Mutation("A3", "the key of a timer has no gen", feeds.pause_and_resume, LOST),
    Mutation("A4", "the feed leaves out own rows", feeds.answer_of_own_insert_lost, LOST),
    Mutation(
        "B1",
        "a snapshot of now instead of the stored one",
        feeds.late_commit_across_a_takeover,
        LOST,
        swap(Groups, "adopt", _fresh_snapshot_at_taking),
    ),
    Mutation(
        "B2",
        "a shard taken over joins the node's position",
        feeds.late_commit_across_a_takeover,
        LOST,
        swap(Groups, "adopt", _position_of_the_node),
    ),
    Mutation("B3", "the snapshot of a poll is read apart", feeds.inserts_all_the_time, LOST),
    Mutation(
        "B4",
        "hi is raised when the slice has arrived",
        feeds.insert_beside_a_slow_slice,
        LOST,
        swap(Feed, "__init__", _hi_after_the_slice),
    ),
    Mutation("B5", "a position outlives its session", feeds.ids_given_out_again, LOST),
    Mutation(
        "C1",
        "the pair has the snapshot of its storing",
        feeds.commits_between_poll_and_pair,
        LOST,
        swap(Pairs, "store", _snapshot_at_storing),
    ),
    Mutation(
        "C2",
        "the acknowledged position never goes back",
        feeds.late_row_that_is_not_claimed_yet,
        LOST,
        swap(Loading, "pairs", _never_back),
    ),
    Mutation(
        "C3",
        "what was handed over counts as resolved",
        feeds.claims_do_not_get_through,
        LOST,
        swap(Unresolved, "lowest_ms", _handed_over_is_resolved),
    ),
    Mutation(
        "C4",
        "what is in flight counts as resolved",
        feeds.owner_and_worker_die_early,
        LOST,
        _in_flight_is_resolved,
    ),
    Mutation(
        "C5",
        "a lost claim is forgotten, not watched",
        feeds.owner_and_worker_die_early,
        LOST,
        swap(Reaper, "watch", _nobody_watches),
    ),
    Mutation("C6", "a leaf is dropped whatever is open", feeds.open_insert_at_the_drop, LOST),
    Mutation("D1", "a claim holds no lock on its node", claims.open_claim_across_a_takeover, TOKENS),
    Mutation(
        "D2",
        "claims of one job are open at once",
        claims.two_runs_at_once,
        TOKENS,
        swap(Claims, "run", _two_at_once),
    ),
    Mutation("D3", "the epoch stays at a taking", claims.owner_dies_in_a_chain, TOKENS),
    Mutation("D4", "the reaper raises the token", claims.lost_attempt_beside_a_newer_token, TOKENS),
    Mutation("D7", "any timer starts a waiting run", feeds.old_timer_again, ("I6 early",)),
    Mutation("E1", "a claim does not hold its job", claims.cancel_beside_an_open_claim, AFTER),
    Mutation("E2", "who loses inserts the next timer too", claims.loser_with_a_fast_clock, CHAIN),
    Mutation(
        "E3",
        "the next instant may have a row",
        claims.edit_after_a_cancelled_occurrence,
        CHAIN,
        swap(TakenInstants, "of", lambda original: lambda self, view, now_ms: frozenset()),
    ),
    Mutation(
        "E4",
        "an edit leaves the version",
        claims.edit_of_the_expression,
        ("I7 old instant", "I9 chain"),
        swap(edit, "redefined", _same_version),
    ),
    Mutation(
        "E5", "what is due is not settled", claims.edit_of_an_overdue_job, ("E5 vanished",), _nothing_is_settled
    ),
    Mutation("E6", "a skip is decided in memory", claims.skip_of_late_occurrences, CHAIN),
    Mutation("E7", "a waiting retry does not count", claims.occurrence_beside_a_waiting_retry, ("E7 overlap",)),
    Mutation("E8", "a cancel looks before it has the lock", claims.cancel_beside_an_open_claim, AFTER),
    Mutation(
        "F1",
        "one token is started twice",
        claims.timer_of_a_run_in_flight,
        TWICE,
        swap(Claims, "_won", _starts_what_is_in_flight),
    ),
    Mutation(
        "F2",
        "a new owner starts the old owner's run again",
        claims.owner_stops_with_an_attempt,
        TWICE,
        swap(Claims, "_won", _starts_what_is_in_flight),
    ),
    Mutation(
        "F3", "the last attempt counts from its claim", claims.dies_between_claim_and_start, ("I8 attempts",)
    ),
    Mutation("F6", "an end needs the token only", claims.cancel_of_a_running_attempt, ("I4 final", *AFTER)),
    Mutation("L1", "claims count slots without a lock", claims.two_nodes_claim_for_one_key, ("L1 limit",)),
    Mutation(
        "L1",
        "claims don't bring along what a tenant may have",
        claims.more_runs_than_their_tenant_may_have,
        ("L1 limit",),
        _forgets_limits_of_tenants,
    ),
    Mutation(
        "L2",
        "what waits for a slot is not tried again",
        claims.slot_that_another_node_frees,
        LOST,
        swap(LimitGate, "poll", lambda original: lambda self: None),
    ),
    Mutation(
        "L3",
        "the end of a run leaves its slot taken",
        claims.slot_that_another_node_frees,
        ("L1 limit", *LOST),
        swap(Tables, "free_slots", lambda original: lambda self, key: None),
    ),
    Mutation(
        "L4",
        "timers wait unasked though their runs are in flight",
        claims.holder_behind_a_crowd,
        LOST,
        swap(LimitGate, "__init__", _sees_no_runs),
    ),
    Mutation("G1", "the name is the identity", claims.second_start_under_a_name, RESTLESS, _name_is_identity),
    Mutation(
        "G2",
        "silences go on after a failed beat",
        claims.coordinator_restarts,
        ("G2 killed the living",),
        swap(Membership, "begin_anew", _silence_goes_on),
    ),
    Mutation(
        "G3",
        "unfit nodes are ranked",
        claims.unfit_node,
        LOST,
        swap(ownership, "candidates", _everybody_is_ranked),
    ),
    Mutation(
        "G5",
        "a node trusts what it remembers",
        claims.answer_of_a_take_lost,
        LOST,
        swap(ownership, "plan", _trusts_its_memory),
    ),
)
