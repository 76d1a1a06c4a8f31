"""The stations of a run, in the order in which it passed them."""

from collections.abc import Iterator, Sequence

from tickwheel.domain.explanation.attempts import what_happened
from tickwheel.domain.explanation.facts import RunFacts
from tickwheel.domain.explanation.story import AttemptStory, Step
from tickwheel.domain.run import RunState


def steps_of(run: RunFacts, stories: Sequence[AttemptStory], made_ms: int) -> tuple[Step, ...]:
    """Oldest first, each with the time since the one before. `made_ms`: when the job was created.

    Claims are told of the latest attempt only; the row keeps no others.
    """
    ranked = sorted(enumerate(_stations(run, stories, made_ms)), key=lambda one: (one[1].at_ms, one[0]))
    stations = [station for _, station in ranked]
    before: list[int | None] = [None, *(station.at_ms for station in stations)]
    return tuple(
        Step(one.step, one.at_ms, None if at_ms is None else one.at_ms - at_ms, one.attempt, one.note)
        for one, at_ms in zip(stations, before, strict=False)
    )


def _stations(run: RunFacts, stories: Sequence[AttemptStory], made_ms: int) -> Iterator[Step]:
    if made_ms <= run.scheduled_ms:
        yield Step("created", made_ms, note="the job")
    if run.armed_ms is not None and run.armed_ms != made_ms:
        yield Step("armed", run.armed_ms, note="its timer was stored")
    yield Step("due", run.scheduled_ms)
    if made_ms > run.scheduled_ms:
        yield Step("created", made_ms, note="the job")
    for story in stories[:-1]:
        yield from _attempt(story)
    if run.claimed_ms is not None:
        attempt = stories[-1].attempt if stories else run.attempt or None
        yield Step("claimed", run.claimed_ms, attempt=attempt)
        if run.state is not RunState.CLAIMED:
            yield Step("dispatched", run.claimed_ms, attempt=attempt)
    if stories:
        last = stories[-1]
        ends_run = last.finished_ms is not None and last.finished_ms == run.finished_ms
        yield from _attempt(last, ends_run=ends_run)
    if run.finished_ms is not None:
        yield Step("finished", run.finished_ms, note=run.state.name)
    if run.state is RunState.SCHEDULED and run.retry_ms is not None:
        yield Step("due again", run.retry_ms)


def _attempt(story: AttemptStory, *, ends_run: bool = False) -> Iterator[Step]:
    if story.started_ms is not None:
        yield Step("started", story.started_ms, attempt=story.attempt)
    if story.finished_ms is not None and not ends_run:
        yield Step("ended", story.finished_ms, attempt=story.attempt, note=what_happened(story))
