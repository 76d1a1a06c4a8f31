"""Sends messages; the node that leads does it for all.

Each second: what happened since is taken in and put into groups (`intake`), messages whose time has come are
fixed, and all of it is written. Only then is a message brought, beside the loop, so that a receiver that is slow
keeps nothing else waiting. When it arrived, that is written with the next lap.

A node that dies leaves what it had written: the next leader goes on from there. What it was just bringing is
brought again, under the same id and with the same words; that is the only way to get a message twice. A node that
is stopped gives what it is bringing a moment to end, and writes that down.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.notifications.messages import compose
from tickwheel.ports.clock import Clock
from tickwheel.ports.courier import Courier
from tickwheel.ports.events import EventSink, NotificationEnded
from tickwheel.ports.notices import GroupKey, NoticeStore
from tickwheel.services.notifying.book import GroupBook
from tickwheel.services.notifying.intake import Intake
from tickwheel.services.notifying.rules import NotificationRules

LAP_MS: Final = 1_000
RECOVERIES_EACH_MS: Final = 15_000
"""Between two looks for jobs that are failing no more."""
END_MS: Final = 1_000
NOTICES_AT_A_TIME: Final = 500
BATCHES_PER_LAP: Final = 2
"""So a flood of failures takes no more than a tenth of a processor from what fires here."""
UNDER_WAY_MAX: Final = 32
UNDER_WAY_OF_TENANT_MAX: Final = 4
"""So that receivers of one tenant that answer nothing leave room for the others."""


class Notifier:
    """The loop. `is_leader` says whether this node is to send now."""

    def __init__(
        self,
        *,
        store: NoticeStore,
        rules: NotificationRules,
        intake: Intake,
        courier: Courier,
        clock: Clock,
        events: EventSink,
        is_leader: Callable[[], bool] = lambda: True,
        public_url: str = "",
    ) -> None:
        self._store, self._rules, self._intake, self._courier = store, rules, intake, courier
        self._clock, self._events, self._is_leader = clock, events, is_leader
        self._public_url = public_url
        self._book: GroupBook | None = None
        self._under_way: dict[GroupKey, asyncio.Task[str | None]] = {}
        self._recoveries_ms = 0  # when to look for them next; monotonic

    @property
    def waiting_count(self) -> int:
        """Messages that are being sent or tried again, as far as this node knows."""
        return 0 if self._book is None else sum(group.sending is not None for _, group in self._book.items())

    async def run(self) -> None:
        """For ever, while this node leads."""
        try:
            while True:
                if self._is_leader():
                    await self.lap()
                else:
                    self._forget()
                try:
                    await self._pause(LAP_MS)
                except asyncio.CancelledError:
                    await self._let_end()
                    raise
        finally:
            self._forget()

    async def _pause(self, length_ms: int) -> None:
        """Less, if something that is brought ends: what arrived is soon written, lest it is brought again."""
        sleep = asyncio.ensure_future(self._clock.sleep_ms(length_ms))
        try:
            await asyncio.wait({sleep, *self._under_way.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()

    async def _let_end(self) -> None:
        book, until_ms = self._book, self._clock.monotonic_ms() + END_MS
        if book is None:
            return
        while self._under_way and (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            await self._pause(left_ms)
            self._note_ends(book)
        with suppress(StoreUnavailable):
            await book.settle(self._store)

    async def lap(self) -> None:
        """Once all of it. After an error what is stored counts, and is read anew."""
        try:
            await self._rules.refresh()
            if self._book is None:
                self._book = await GroupBook.open(self._store)
            if not await self._go_on(self._book):
                self._forget()
        except BaseException:
            self._forget()
            raise

    async def _go_on(self, book: GroupBook) -> bool:
        """False: another node has written, so this book is old."""
        self._note_ends(book)
        for _ in range(BATCHES_PER_LAP):
            notices = await self._store.notices(NOTICES_AT_A_TIME)
            done = await self._intake.take_in(book, notices)
            if not await book.settle(self._store, done):
                return False
            if len(done) < NOTICES_AT_A_TIME:
                break
        if self._clock.monotonic_ms() >= self._recoveries_ms:
            await self._intake.look_for_recoveries(book)
            self._recoveries_ms = self._clock.monotonic_ms() + RECOVERIES_EACH_MS
        self._turn(book)
        if not await book.settle(self._store):
            return False
        self._send(book)
        return True

    def _turn(self, book: GroupBook) -> None:
        """Fix what is to be said now, and forget what is over."""
        now_ms = self._clock.now_ms()
        for key, group in book.items():
            rule = self._rules.get((key.tenant_id, key.rule))
            if rule is None:
                if not self._rules.is_unreadable((key.tenant_id, key.rule)):
                    book.drop(key)
            elif group.is_over(now_ms, rule.quiet_ms):
                book.drop(key)
            else:
                book.put(key, group.begun(now_ms, rule.quiet_ms))

    def _send(self, book: GroupBook) -> None:
        now_ms = self._clock.now_ms()
        of_tenant = Counter(key.tenant_id for key in self._under_way)
        for key, group in book.items():
            if key in self._under_way or not group.is_due(now_ms):
                continue
            if len(self._under_way) >= UNDER_WAY_MAX:
                return
            rule = self._rules.get((key.tenant_id, key.rule))
            if rule is None or of_tenant[key.tenant_id] >= UNDER_WAY_OF_TENANT_MAX:
                continue
            of_tenant[key.tenant_id] += 1
            message = compose(key.tenant_id, key.rule, rule, group, self._public_url)
            bringing = self._courier.bring(rule, message)
            self._under_way[key] = asyncio.ensure_future(bringing)

    def _note_ends(self, book: GroupBook) -> None:
        now_ms = self._clock.now_ms()
        for key, task in list(self._under_way.items()):
            if not task.done():
                continue
            del self._under_way[key]
            error = _error_of(task)
            group = book.get(key)
            if group is None or group.sending is None:
                continue  # its rule was deleted meanwhile
            if error is None:
                book.put(key, group.delivered())
                self._told(key, "sent", "", group.tries + 1)
            elif group.is_hopeless(now_ms):
                book.put(key, group.delivered())
                self._told(key, "dropped", error, group.tries + 1)
            else:
                book.put(key, group.failed(now_ms))
                self._told(key, "failed", error, group.tries + 1)

    def _told(self, key: GroupKey, outcome: str, error: str, tries: int) -> None:
        self._events.emit(NotificationEnded(key.tenant_id, key.rule, outcome, error, tries))

    def _forget(self) -> None:
        """What isn't over counts as not brought."""
        self._book = None
        under_way, self._under_way = self._under_way, {}
        for task in under_way.values():
            task.cancel()


def _error_of(task: "asyncio.Task[str | None]") -> str | None:
    if task.cancelled():
        return "interrupted"
    fault = task.exception()
    return task.result() if fault is None else f"{type(fault).__name__}: {fault}"
