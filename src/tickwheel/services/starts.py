"""Starts the attempts whose claims were won.

Two things may have to happen between claim and start. The definition may have been edited after it was read: the
claim answers with the job's version, and a definition of another version is read again. And the last allowed
attempt must not be used up by a crash before it began: RUNNING is written for it before its first effect.

So must that of a claim whose answer was lost, for its lease has been running since. A won claim that cannot be
started (the store went away in between) is handed back: nobody's attempt is used up by it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import COMPLETION, RENEWAL, Bools, ClaimVerdict, CompletionCause, Rows
from tickwheel.domain.job import Spec
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import AttemptNote, Store, WorkDefinition
from tickwheel.services.attempts import Pool, Sent, Won
from tickwheel.services.completion import Completions
from tickwheel.services.plans import read_spec
from tickwheel.services.ready import kinds_of

Slots = npt.NDArray[np.intp]
NOT_STARTED: Final = AttemptNote(error="not started: it was not certain that the run is still ours", excerpt=None)


class Starter:
    """Hands won claims to the pools."""

    def __init__(self, *, store: Store, pools: Sequence[Pool], completions: Completions, clock: Clock) -> None:
        self._store, self._pools, self._completions, self._clock = store, pools, completions, clock

    async def start(
        self,
        timers: Rows,
        claims: Rows,
        specs: Sequence[Spec | None],
        works: Sequence[WorkDefinition | None],
        answers: Rows,
        won: Bools,
        sent: Sent,
    ) -> None:
        """Start every row where `won`; arrays and lists run in the order of the claim batch.

        `won` is changed in place: rows that could not be started are cleared, so that their slots are released.
        """
        works, specs = list(works), list(specs)
        versions = np.fromiter((0 if w is None else w.version for w in works), dtype=np.int64, count=len(works))
        changed = won & (versions != answers["version"])
        late = answers["verdict"] != ClaimVerdict.WON  # of a claim whose answer was lost
        careful = changed | (won & (late | (answers["attempt"] >= claims["max_attempts"])))
        try:
            self._start_rows(np.flatnonzero(won & ~careful), timers, specs, works, answers, sent)
        finally:
            if careful.any():
                await self._start_carefully(np.flatnonzero(careful), timers, specs, works, answers, won, sent)

    def _start_rows(
        self,
        chosen: Slots,
        timers: Rows,
        specs: Sequence[Spec | None],
        works: Sequence[WorkDefinition | None],
        answers: Rows,
        sent: Sent,
    ) -> None:
        kinds, failures = kinds_of(timers[chosen]), list[Exception]()
        for kind, pool in enumerate(self._pools):
            rows = chosen[kinds == kind]
            if not len(rows):
                continue
            pairs = [(works[i], specs[i]) for i in rows.tolist()]
            won = Won(
                timers=timers[rows],
                claimed=answers[rows],
                works=[work for work, _ in pairs if work is not None],
                specs=[spec for _, spec in pairs if spec is not None],
                sent=sent,
            )
            try:
                pool.start(won)
            except Exception as error:  # whatever it is, the other executor's attempts have to start
                failures.append(error)
        if failures:
            raise failures[0]

    async def _start_carefully(
        self,
        chosen: Slots,
        timers: Rows,
        specs: list[Spec | None],
        works: list[WorkDefinition | None],
        answers: Rows,
        won: Bools,
        sent: Sent,
    ) -> None:
        startable = chosen[:0]
        try:
            fresh = await self._store.load_work(timers["job_id"][chosen].tolist())
            for number, work in zip(chosen.tolist(), fresh, strict=True):
                works[number] = work
                specs[number] = None if work is None else read_spec(work.spec)
            there = chosen[[works[i] is not None for i in chosen.tolist()]]
            startable = there[await self._mark_running(timers[there], answers[there], sent)]
        finally:
            left = np.setdiff1d(chosen, startable)
            won[left] = False
            self._hand_back(timers[left], answers[left])
        self._start_rows(startable, timers, specs, works, answers, sent)

    def _hand_back(self, timers: Rows, answers: Rows) -> None:
        if not len(timers):
            return
        rows = np.zeros(len(timers), dtype=COMPLETION)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            rows[name] = timers[name]
        for name in ("fence", "attempt", "lost_count"):
            rows[name] = answers[name]
        rows["state"], rows["cause"] = RunState.SCHEDULED, CompletionCause.UNSTARTED
        rows["outcome"] = OutcomeClass.UNSTARTED
        rows["finished_ms"] = rows["retry_ms"] = self._clock.now_ms()
        notes = dict.fromkeys(range(len(rows)), NOT_STARTED)
        self._completions.add(rows, notes, [None] * len(rows))

    async def _mark_running(self, timers: Rows, answers: Rows, sent: Sent) -> Bools:
        """Write RUNNING; which rows still hold their token."""
        rows = np.zeros(len(timers), dtype=RENEWAL)
        rows["job_id"], rows["scheduled_ms"] = timers["job_id"], timers["scheduled_ms"]
        rows["fence"], rows["lease_ms"] = answers["fence"], sent.lease_ms
        rows["started_ms"] = rows["beat_ms"] = self._clock.now_ms()
        rows["mark_running"] = 1
        return await self._store.renew(rows)
