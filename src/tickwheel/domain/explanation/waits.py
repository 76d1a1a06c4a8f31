"""Why the first attempt of a run began late, or has not begun though it is due.

The wait is the stretch from the run's instant to its first start. Every delay, pause and run of the same job that
lies over a part of it is a cause; the one that covers most of it is the first. What is left over is said to be
unexplained if it is the larger part, rather than put down to something.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tickwheel.domain.concurrency import Scope
from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.domain.explanation.facts import Circumstances, RunFacts
from tickwheel.domain.explanation.story import Cause, Code
from tickwheel.domain.explanation.words import at, length, sentence
from tickwheel.domain.job import CatchUp, Overlap, TargetType
from tickwheel.domain.run import IN_FLIGHT

LATE_AFTER_MS: Final = 500
"""A run that begins within it is on time."""

WRITTEN_AGAIN_MS: Final = 13_000
"""A delay that was noted within it may go on."""

_LEAST_PART: Final = 20
"""What covers less than a twentieth of a wait is no cause of it."""

_TARGET_WORDS: Final = {
    "failing": "the host {} answered nothing, and was asked now and then only",
    "retry_after": "the host {} had asked to be left alone",
    "slowed": "the host {} pushed back, and got fewer calls",
    "full": "all calls that the host {} may get at a time were under way",
    "rate": "the rate that is set for {} was used up",
}
_TROUBLED: Final = ("failing", "retry_after", "slowed")
_NOW_WORDS: Final = {
    "failing": (Code.TARGET_TROUBLED, "its host answers nothing, and is asked now and then only"),
    "retry_after": (Code.TARGET_TROUBLED, "its host has asked to be left alone"),
    "slowed": (Code.TARGET_TROUBLED, "its host pushes back, and gets fewer calls"),
    "full": (Code.TARGET_BUSY, "all places of its target, or of the workers that do it, are taken"),
    "rate": (Code.TARGET_BUSY, "the rate of its target is used up"),
    "worker": (Code.WORKER_ABSENT, "no worker that lives does it"),
    "concurrency": (Code.TENANT_LIMIT, "as many runs of its tenant are in flight as may be"),
    "due_per_second": (Code.TENANT_RATE, "as many runs of its tenant begin in a second as may"),
    "disabled": (Code.TENANT_DISABLED, "its tenant is disabled"),
}


class Wait(NamedTuple):
    """From the instant to the first start, or to now."""

    from_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        return max(0, self.until_ms - self.from_ms)


def causes_of(run: RunFacts, wait: Wait, known: Circumstances) -> tuple[Cause, ...]:
    """The causes, the weightiest first; empty if the wait is not worth one."""
    if wait.length_ms < LATE_AFTER_MS:
        return ()
    found = [*_by_schedule(run, wait, known), *_by_delays(wait, known), *_by_queue(run, wait)]
    clipped = [cause for cause in (_clipped(one, wait) for one in found) if _matters(cause, wait)]
    clipped.sort(key=_weight, reverse=True)
    if known.waits_for in _NOW_WORDS and run.state not in IN_FLIGHT and not run.fence:
        code, words = _NOW_WORDS[known.waits_for]
        if code is Code.WORKER_ABSENT and known.job.spec.target.type is TargetType.HANDLER:
            words = f"no worker that lives does the handler {known.job.spec.target.name!r}"
        rest = [cause for cause in clipped if cause.code is not code]
        return (Cause(code, sentence(words), wait.from_ms, wait.until_ms), *_unlike(rest))
    uncovered_ms = wait.length_ms - _covered_ms(clipped)
    if 2 * uncovered_ms > wait.length_ms:
        words = f"for {length(uncovered_ms)} it waited to be claimed, and nothing that is recorded says why"
        unknown = Cause(Code.LATE_CLAIM, sentence(words), wait.from_ms, wait.until_ms)
        return (unknown, *_unlike(clipped))
    return _unlike(clipped)


def _by_schedule(run: RunFacts, wait: Wait, known: Circumstances) -> Iterable[Cause]:
    job, armed_ms = known.job, run.armed_ms
    if armed_ms is not None and armed_ms > run.scheduled_ms:
        late = length(armed_ms - run.scheduled_ms)
        if job.recurring:
            words = f"it was missed, and ran later as the job's catch-up policy `{job.spec.catch_up.value}` says"
            yield Cause(Code.CATCH_UP, sentence(words), wait.from_ms, armed_ms)
        else:
            yield Cause(
                Code.CREATED_LATE, sentence(f"it was created {late} after its instant"), wait.from_ms, armed_ms
            )
    for pause in known.pauses:
        until_ms = known.now_ms if pause.until_ms is None else pause.until_ms
        if pause.from_ms < wait.until_ms and until_ms > wait.from_ms:
            ended = "it still is" if pause.until_ms is None else f"until {at(pause.until_ms)}"
            words = f"the job was paused at {at(pause.from_ms)}, {ended}"
            yield Cause(Code.PAUSED, sentence(words), pause.from_ms, until_ms)
    if job.spec.overlap is not Overlap.ALLOW:
        yield from _by_overlap(wait, known)


def _by_overlap(wait: Wait, known: Circumstances) -> Iterable[Cause]:
    for other in known.earlier:
        begun_ms, until_ms = other.begun_ms, known.now_ms if other.ended_ms is None else other.ended_ms
        if begun_ms is not None and begun_ms < wait.until_ms and until_ms > wait.from_ms:
            ended = "has not ended yet" if other.ended_ms is None else f"went on until {at(other.ended_ms)}"
            words = f"the job's run of {at(other.scheduled_ms)} {ended}, and they may not overlap"
            yield Cause(Code.OVERLAP, sentence(words), begun_ms, until_ms)


def _by_delays(wait: Wait, known: Circumstances) -> Iterable[Cause]:
    for delay in known.delays:
        if delay.is_about(known.shard) and delay.from_ms < wait.until_ms and delay.until_ms > wait.from_ms:
            code, words = _told(delay, known)
            # A handler is looked for now and then only, and what goes on is written again now and then.
            goes_on = delay.kind is DelayKind.WORKER or known.now_ms - delay.until_ms <= WRITTEN_AGAIN_MS
            until_ms = max(wait.until_ms, delay.until_ms) if goes_on else delay.until_ms
            yield Cause(code, sentence(words), delay.from_ms, until_ms)


def _told(delay: Delay, known: Circumstances) -> tuple[Code, str]:
    took = length(max(0, delay.until_ms - delay.from_ms))
    match delay.kind:
        case DelayKind.START | DelayKind.ALIVE:
            return Code.NOT_RUNNING, f"no server was running from {at(delay.from_ms)} to {at(delay.until_ms)}"
        case DelayKind.TAKEOVER:
            who = f"the node that owned its shard, {delay.subject},"
            how = "died" if delay.detail == "proved" else "fell silent"
            return Code.TAKEOVER, f"{who} {how}; {delay.node} took over after {took}"
        case DelayKind.STORE:
            return Code.STORE_AWAY, f"{delay.node} could not work with the store for {took}"
        case DelayKind.TARGET:
            words = _TARGET_WORDS.get(delay.detail, _TARGET_WORDS["full"]).format(delay.subject)
            return (Code.TARGET_TROUBLED if delay.detail in _TROUBLED else Code.TARGET_BUSY), words
        case DelayKind.LIMIT:
            return _told_limit(delay.subject, known)
        case DelayKind.TENANT:
            if delay.detail == "disabled":
                return Code.TENANT_DISABLED, f"its tenant was disabled for {took}"
            return Code.TENANT_RATE, "as many runs of its tenant began in a second as may"
        case DelayKind.SLOTS:
            kind, _, lane = delay.subject.partition("/")
            whose = "of the workers elsewhere" if kind == "worker" else f"for {kind}s on {delay.node}"
            return Code.SLOTS_TAKEN, f"all slots {whose} were taken that the lane {lane} may use"
        case DelayKind.WORKER:
            what = f"the handler {delay.subject!r}" if known.job.spec.target.type is TargetType.HANDLER else "it"
            return Code.WORKER_ABSENT, f"no worker that lived did {what}"


def _told_limit(counted: str, known: Circumstances) -> tuple[Code, str]:
    scope, _, rest = counted.partition("\n")
    word = rest.partition("\n")[2]
    stated = [one.limit for one in known.job.spec.concurrency if _is_of(one.scope, one.key, scope, word)]
    count = min(stated, default=0)
    many, were = (
        ("the only slot", "was") if count == 1 else (f"all {count} slots" if count else "all slots", "were")
    )
    if scope == Scope.TENANT:
        return Code.TENANT_LIMIT, f"{many} that its tenant may use at a time {were} taken"
    whose = f"its limit for the key {word!r}" if scope == Scope.KEY else "the limit of all jobs of its name"
    return Code.LIMIT, f"{many} of {whose} {were} taken"


def _is_of(limit_scope: Scope, key: str, scope: str, word: str) -> bool:
    return limit_scope.value == scope and (limit_scope is not Scope.KEY or key == word)


def _by_queue(run: RunFacts, wait: Wait) -> Iterable[Cause]:
    """Between claim and start: what a worker elsewhere did not take at once."""
    single = run.attempt <= 1 and len(run.attempts) <= 1
    if single and run.claimed_ms is not None and wait.until_ms - run.claimed_ms >= LATE_AFTER_MS:
        waited = length(wait.until_ms - run.claimed_ms)
        words = f"it was claimed, and for {waited} no worker began it"
        yield Cause(Code.QUEUED, sentence(words), run.claimed_ms, wait.until_ms)


def _clipped(cause: Cause, wait: Wait) -> Cause:
    from_ms = max(cause.from_ms or 0, wait.from_ms)
    until_ms = wait.until_ms if cause.until_ms is None else min(cause.until_ms, wait.until_ms)
    return Cause(cause.code, cause.sentence, from_ms, until_ms)


def _weight(cause: Cause) -> int:
    return (cause.until_ms or 0) - (cause.from_ms or 0)


def _matters(cause: Cause, wait: Wait) -> bool:
    return _weight(cause) > 0 and _LEAST_PART * _weight(cause) >= wait.length_ms


def _covered_ms(causes: Sequence[Cause]) -> int:
    covered_ms, until_ms = 0, 0
    for cause in sorted(causes, key=lambda one: one.from_ms or 0):
        from_ms = max(cause.from_ms or 0, until_ms)
        until_ms = max(until_ms, cause.until_ms or 0)
        covered_ms += max(0, until_ms - from_ms)
    return covered_ms


def _unlike(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """One of each sentence's kind is enough: a host that is held ten times in a row is one cause."""
    found: dict[Code, Cause] = {}
    for cause in causes:
        found.setdefault(cause.code, cause)
    return tuple(found.values())


def missed_how(policy: CatchUp) -> str:
    """What the policy does with an occurrence that nobody could fire in time."""
    return {
        CatchUp.SKIP: "leaves missed occurrences out",
        CatchUp.FIRE_ONCE: "runs once for all that were missed",
        CatchUp.FIRE_ALL: "runs the newest of those that were missed",
    }[policy]
