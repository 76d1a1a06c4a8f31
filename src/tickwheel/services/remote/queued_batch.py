"""The timers of one claim for workers elsewhere; what `ClaimBatch` is for runs that start here.

Each of them ends published in the queue, let go, or back in the backlog; and the room that was held for it at its
topic is given back, or taken by its hint.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, Rows, empty
from tickwheel.domain.job import Spec
from tickwheel.ports.queue import Topic
from tickwheel.ports.store import WorkDefinition
from tickwheel.services.plans import Plan
from tickwheel.services.remote.backlog import Backlog


class QueuedBatch:
    """TIMER rows with the topic of each. Room is held at the topics."""

    queued = True

    def __init__(self, taken: Sequence[tuple[Topic, Rows]], backlog: Backlog) -> None:
        self._backlog = backlog
        self.timers: Rows = np.concatenate([rows for _, rows in taken]) if taken else empty(TIMER)
        self.topics = [topic for topic, rows in taken for _ in range(len(rows))]
        self.works: Sequence[WorkDefinition | None] = []
        self.specs: Sequence[Spec | None] = []
        self.claims: Rows = empty(TIMER)
        self.started: Bools = np.zeros(len(self.timers), dtype=np.bool_)  # here: in the hands of the outbox
        self.answered = False
        self._planned = False

    def __len__(self) -> int:
        return len(self.timers)

    def admit(self, works: Sequence[WorkDefinition | None], plan: Plan) -> None:
        """Take in the plan; what is not claimed now leaves the batch."""
        self.works, self.specs, self.claims, self._planned = works, plan.specs, plan.claims, True
        keep = np.ones(len(self.timers), dtype=np.bool_)
        keep[plan.failed + plan.unserved] = False
        self.let_go(keep)

    def let_go(self, keep: Bools) -> None:
        """Rows where `keep` is false leave the batch before it is claimed."""
        if keep.all():
            return
        self._settle(np.flatnonzero(~keep).tolist(), published=False)
        kept = np.flatnonzero(keep).tolist()
        self.timers, self.started = self.timers[keep], self.started[keep]
        self.topics = [self.topics[i] for i in kept]
        if self._planned:
            self.works, self.specs = [self.works[i] for i in kept], [self.specs[i] for i in kept]
            self.claims = self.claims[keep]

    def close(self) -> None:
        """Give everything back that was neither published nor let go."""
        if not self.answered:
            for topic in dict.fromkeys(self.topics):
                rows = [number for number, other in enumerate(self.topics) if other == topic]
                self._backlog.push_back(topic.route, self.timers[rows])
        self._settle(np.flatnonzero(self.started).tolist(), published=True)
        self._settle(np.flatnonzero(~self.started).tolist(), published=False)
        self.timers, self.started, self.topics = self.timers[:0], self.started[:0], []

    def _settle(self, numbers: Sequence[int], *, published: bool) -> None:
        for topic, count in Counter(self.topics[number] for number in numbers).items():
            self._backlog.settle(topic, claimed=count, published=count if published else 0)
