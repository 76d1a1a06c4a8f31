"""What is wrong between the fields of a request: missing ones, and ones that don't go together."""

from collections.abc import Iterator, Mapping, Set

from tickwheel.domain import limits
from tickwheel.domain.concurrency import Scope
from tickwheel.domain.cron import CronError, parse_cron
from tickwheel.domain.errors import FieldProblem
from tickwheel.domain.job import ScheduleType, TargetType
from tickwheel.domain.requests.concurrency_rules import limit_faults
from tickwheel.domain.requests.fields import FIELDS, TIME_FIELDS, Field
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.domain.requests.strict_json import Json

Given = Mapping[str, Json]
"""The members of an object that are not null."""


def relation_problems(tree: Given, faulty: Set[str]) -> Iterator[FieldProblem]:
    """Problems between fields; `faulty` paths were complained about already and are left alone."""
    given = _given(tree)
    yield from _schedule_problems(given, faulty)
    if "target" not in given:
        yield _required("target", "an object with an endpoint, or with type HANDLER and a name")
    elif isinstance(given["target"], dict):
        yield from _target_problems(_given(given["target"]), faulty)
    retry = given.get("retry_policy")
    if isinstance(retry, dict):
        yield from _retry_problems(_given(retry), faulty)
    limits_given = given.get("concurrency")
    if isinstance(limits_given, list):
        yield from _limit_problems(limits_given, given.get("job_name", ""), faulty)


def _schedule_problems(given: Given, faulty: Set[str]) -> Iterator[FieldProblem]:
    if "schedule_type" not in given:
        yield _required("schedule_type", f"one of {', '.join(ScheduleType)}")
        return
    if "schedule_type" in faulty:
        return
    kind = ScheduleType(given["schedule_type"])
    for field in FIELDS:
        if field.path in given and field.schedule_types and kind not in field.schedule_types:
            yield _unfit(field, " or ".join(field.schedule_types), f"schedule_type {kind}")
    if kind is ScheduleType.CRON:
        yield from _cron_problems(given, faulty)
    elif kind is not ScheduleType.INSTANT:
        yield from _time_problems(given, kind)


def _time_problems(given: Given, kind: ScheduleType) -> Iterator[FieldProblem]:
    times = [name for name in TIME_FIELDS if name in given]
    if not times:
        yield _required(TIME_FIELDS[0], f"{kind} needs exactly one of {', '.join(TIME_FIELDS)}")
    for extra in times[1:]:
        yield FieldProblem(extra, f"can't be given together with {times[0]}; remove one", "conflict")


def _cron_problems(given: Given, faulty: Set[str]) -> Iterator[FieldProblem]:
    expression, timezone = given.get("cron_expression"), given.get("timezone", "UTC")
    if expression is None:
        yield _required("cron_expression", 'CRON needs one, such as "0 2 * * *"')
    elif isinstance(expression, str) and isinstance(timezone, str) and "cron_expression" not in faulty:
        try:
            parse_cron(expression, timezone)
        except CronError as error:
            at_zone = error.field == "timezone"
            if not (at_zone and "timezone" in faulty):
                yield FieldProblem("timezone" if at_zone else "cron_expression", str(error))
    start_ms, end_ms = _instant(given.get("start_at")), _instant(given.get("end_at"))
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        yield FieldProblem("end_at", "must be later than start_at", "conflict")


def _target_problems(target: Given, faulty: Set[str]) -> Iterator[FieldProblem]:
    if "target.type" in faulty:
        return
    kind = TargetType(target.get("type", TargetType.HTTP_WEBHOOK))
    needed = "endpoint" if kind is TargetType.HTTP_WEBHOOK else "name"
    if needed not in target:
        yield _required(f"target.{needed}", f"{kind} needs it")
    for field in FIELDS:
        if field.parent == "target" and field.name in target and field.target_type not in (None, kind):
            yield _unfit(field, str(field.target_type), f"target.type {kind}")


def _retry_problems(retry: Given, faulty: Set[str]) -> Iterator[FieldProblem]:
    cap = retry.get("max_interval_sec")
    initial = retry.get("initial_interval_sec", limits.INITIAL_SECONDS_DEFAULT)
    odd = {"retry_policy.max_interval_sec", "retry_policy.initial_interval_sec"} & faulty
    if cap is not None and not odd and round(cap * 1000) < round(initial * 1000):
        yield FieldProblem(
            "retry_policy.max_interval_sec", f"must not be below initial_interval_sec ({initial})", "conflict"
        )


def _limit_problems(items: list[Json], job_name: Json, faulty: Set[str]) -> Iterator[FieldProblem]:
    pairs: list[tuple[Scope | None, str | None]] = []
    for index, item in enumerate(items):
        at, given = f"concurrency[{index}]", _given(item) if isinstance(item, dict) else {}
        odd = not isinstance(item, dict) or {f"{at}.scope", f"{at}.key"} & faulty
        pairs.append((None if odd else Scope(given.get("scope", Scope.KEY)), None if odd else given.get("key")))
    for index, member, fault, code in limit_faults(pairs, job_name if isinstance(job_name, str) else "x"):
        yield FieldProblem(f"concurrency[{index}].{member}", fault, code)


def _given(members: Mapping[str, Json]) -> Given:
    return {name: value for name, value in members.items() if value is not None}


def _instant(text: Json) -> int | None:
    try:
        return parse_instant(text) if isinstance(text, str) else None
    except InstantError:
        return None


def _required(path: str, what: str) -> FieldProblem:
    return FieldProblem(path, f"is required: {what}", "required")


def _unfit(field: Field, wanted: str, chosen: str) -> FieldProblem:
    return FieldProblem(field.path, f"goes with {wanted} only; remove it or change {chosen}", "conflict")
