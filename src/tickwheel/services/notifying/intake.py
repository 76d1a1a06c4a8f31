"""Takes notices in: which rules want to know, and whether a job is failing by now.

A job is failing when its last runs, as many as a rule says, are all out of attempts; that is read in the ledger
whenever one of its runs is buried or dropped. It is told once, until a run of it has succeeded again, which is
looked for from time to time while it is failing.

One-off jobs come in numbers, each with one run. They are told together: those of one name as one subject.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from tickwheel.domain.ids import job_id_text, parse_job_id, run_id_text
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.notifications.groups import Example, Group
from tickwheel.domain.notifications.kinds import DROPPED, Kind
from tickwheel.domain.notifications.messages import DETAIL_CHARS, one_line
from tickwheel.domain.notifications.rule import NotificationRule
from tickwheel.domain.run import RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.notices import GroupKey, Notice
from tickwheel.ports.store import JobView, RunPage
from tickwheel.services.notifying.book import GroupBook
from tickwheel.services.notifying.rules import NotificationRules, RuleKey

PAGE_RUNS: Final = 50
PAGES: Final = 4
"""So far back a job's runs are looked through for those that succeeded or failed."""
LAG_MS: Final = 60_000
"""So long a job is looked for that is not found."""
NAMELESS: Final = "one-off jobs without a name"
_FAILURES: Final = (Kind.DEAD_LETTERED, DROPPED)
_KINDS: Final = frozenset((*Kind, DROPPED))
_ACTIVE: Final = (JobState.ACTIVE, JobState.PAUSED)


class ReadsJobs(Protocol):
    """The part of `ports.store.Store` that is asked."""

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None: ...

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage: ...


class _Subject(NamedTuple):
    """What a notice is about. `job` None: there is no such job any more, or it is about none."""

    key: str
    about: str
    job: Job | None
    job_id: str  # printed; empty where several jobs are one subject


class _LastRuns(NamedTuple):
    """How many of a job's last runs failed in a row, or whether the last one succeeded."""

    failures: int
    succeeded: bool


class Intake:
    """What notices and the ledger say goes into the book."""

    def __init__(self, store: ReadsJobs, rules: NotificationRules, clock: Clock) -> None:
        self._store, self._rules, self._clock = store, rules, clock

    async def take_in(self, book: GroupBook, notices: Sequence[Notice]) -> list[int]:
        """Put these into the book; gives the numbers of those that are done with."""
        subjects: dict[tuple[str, bytes], _Subject] = {}
        failures: dict[bytes, int] = {}
        done = []
        for notice in notices:
            rules = self._rules.for_events_of(notice.tenant_id)
            if not rules or notice.kind not in _KINDS:  # a newer version's kind: none of these rules names it
                done.append(notice.number)
                continue
            whose = notice.tenant_id, notice.job_id
            if not notice.job_id:
                subject = _Subject(notice.subject, notice.subject, None, "")
            elif whose in subjects:
                subject = subjects[whose]
            else:
                subject = subjects[whose] = await self._subject(*whose)
            if notice.job_id and subject.job is None and self._is_fresh(notice):
                continue
            done.append(notice.number)
            example = self._example(notice, subject)
            for key, rule in rules.items():
                if notice.job_id and not _takes(rule, subject):
                    continue
                if notice.kind in rule.events:
                    kind = Kind(notice.kind)
                    book.heard(key, kind, subject.key, _blank(kind, subject, notice.tenant_id), example)
                if notice.kind in _FAILURES and _follows(rule, subject):
                    if notice.job_id not in failures:
                        failures[notice.job_id] = (await self._last_runs(*whose)).failures
                    if failures[notice.job_id] >= rule.failures:
                        count = failures[notice.job_id]
                        _begin_failing(book, key, rule, subject, notice.tenant_id, example, count)
        return done

    def _is_fresh(self, notice: Notice) -> bool:
        """Whether its job may only not have reached the replica yet that is read."""
        return self._clock.now_ms() < notice.at_ms + LAG_MS

    async def look_for_recoveries(self, book: GroupBook) -> None:
        """Close what was told to be failing where a run has succeeded since, or the job is over."""
        for key, group in book.items():
            if not group.is_open:
                continue
            job_id = parse_job_id(group.job_id)
            view = await self._store.get_job(group.tenant_id, job_id)
            if view is None or view.job.state not in _ACTIVE:
                book.put(key, replace(group, is_open=False))
            elif (await self._last_runs(group.tenant_id, job_id)).succeeded:
                book.put(key, replace(group, is_open=False))
                self._recovered(book, key, group)

    def _recovered(self, book: GroupBook, key: GroupKey, group: Group) -> None:
        whose: RuleKey = key.tenant_id, key.rule
        rule = self._rules.get(whose)
        if rule is None or Kind.RECOVERED not in rule.events:
            return
        blank = Group(Kind.RECOVERED, group.about, group.tenant_id, group.job_id)
        example = Example(self._clock.now_ms(), group.job_id, detail="a run of it has succeeded")
        book.heard(whose, Kind.RECOVERED, group.job_id, blank, example)

    async def _subject(self, tenant_id: str, job_id: bytes) -> _Subject:
        view, printed = await self._store.get_job(tenant_id, job_id), job_id_text(job_id)
        if view is None:
            return _Subject(printed, printed, None, printed)
        job = view.job
        if job.recurring:
            return _Subject(printed, job.name or printed, job, printed)
        return _Subject(f"name:{job.name}", job.name or NAMELESS, job, "")

    def _example(self, notice: Notice, subject: _Subject) -> Example:
        return Example(
            at_ms=notice.at_ms or self._clock.now_ms(),
            job_id=job_id_text(notice.job_id) if notice.job_id else "",
            job_name="" if subject.job is None else subject.job.name,
            run_id=run_id_text(notice.job_id, notice.scheduled_ms) if notice.scheduled_ms else "",
            scheduled_ms=notice.scheduled_ms,
            detail=one_line(notice.detail, DETAIL_CHARS),
        )

    async def _last_runs(self, tenant_id: str, job_id: bytes) -> "_LastRuns":
        """What is under way or was skipped doesn't count."""
        failures, cursor = 0, None
        for _ in range(PAGES):
            page = await self._store.list_runs(tenant_id, job_id, PAGE_RUNS, cursor)
            for run in page.items:
                if run.state is RunState.SUCCEEDED:
                    return _LastRuns(failures, succeeded=not failures)
                failures += run.state is RunState.FAILED
            cursor = page.next_cursor
            if cursor is None:
                break
        return _LastRuns(failures, succeeded=False)


def _takes(rule: NotificationRule, subject: _Subject) -> bool:
    """What is about a job that is gone is told to rules that take all jobs."""
    if subject.job is None:
        return rule.takes_job("", ())
    return rule.takes_job(subject.job.name, subject.job.tags)


def _follows(rule: NotificationRule, subject: _Subject) -> bool:
    recurs = subject.job is not None and subject.job.recurring
    return recurs and (Kind.FAILING in rule.events or Kind.RECOVERED in rule.events)


def _blank(kind: Kind, subject: _Subject, tenant_id: str) -> Group:
    return Group(kind, subject.about, tenant_id, subject.job_id)


def _begin_failing(
    book: GroupBook,
    rule_key: RuleKey,
    rule: NotificationRule,
    subject: _Subject,
    tenant_id: str,
    example: Example,
    count: int,
) -> None:
    key = GroupKey(*rule_key, f"{Kind.FAILING}/{subject.key}")
    group = book.get(key)
    if group is not None and group.is_open:
        return
    blank = _blank(Kind.FAILING, subject, tenant_id)
    if Kind.FAILING in rule.events:
        told = replace(example, detail=f"{count} runs in a row failed; the last one: {example.detail}")
        key = book.heard(rule_key, Kind.FAILING, subject.key, blank, told)
    opened = book.get(key) or blank
    if opened.job_id:  # what shares one message with others is not followed any further
        book.put(key, replace(opened, is_open=True))
