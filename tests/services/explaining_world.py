"""A firing side whose delays are watched, and the use case that explains its runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tickwheel.ports.events import Event
from tickwheel.services.delay_book import DelayBook
from tickwheel.services.delay_watch import DelayWatch
from tickwheel.services.explanations import Explained, Explanations
from tickwheel.services.jobs import Jobs
from tickwheel.services.scheduler import Scheduler
from tickwheel.testing.seeded_randomness import SeededRandomness

from .world import Events, World


@dataclass
class Listened(Events):
    """Hands each event on to the book."""

    books: list[DelayBook] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        super().emit(event)
        for book in self.books:
            book.emit(event)


class ExplainingWorld(World):
    """`start` begins the watch too; `crash` ends it without a word."""

    watch: DelayWatch

    async def start(self, *, local_routes: Sequence[str] = ()) -> Scheduler:
        self.events = listened = Listened()
        scheduler = await super().start(local_routes=local_routes)
        book = DelayBook(self.clock)
        listened.books.append(book)
        self.watch = DelayWatch(
            store=self.store,
            scheduler=scheduler,
            book=book,
            clock=self.clock,
            events=self.events,
            node=f"node-{self.process_count}",
            retention_ms=90 * 86_400_000,
        )
        self.book = book
        self.watch.start()
        self.explanations = Explanations(
            self.store, self.clock, lambda target, tenant_id: scheduler.gate.waits_for(target)
        )
        self.jobs = Jobs(self.store, scheduler, self.clock, SeededRandomness(3))
        return scheduler

    async def crash(self, scheduler: Scheduler) -> None:
        await super().crash(scheduler)
        loop = self.watch._loop
        if loop is not None:
            loop.cancel()

    async def explain(self, job_id: bytes, scheduled_ms: int | None = None) -> Explained:
        """The run at that instant, by default the job's latest."""
        if scheduled_ms is None:
            return await self.explanations.of_instant("default", job_id, None)
        return await self.explanations.of_run("default", job_id, scheduled_ms)
