"""From headers and body to an answer, without a framework.

Verified, bounded, guarded; then the effect. An effect that returns nothing, or an `Answer` of 2xx, is recorded.
One that returns another `Answer` has happened not at all: what it wrote through its connection is undone, and the
answer goes to Tickwheel. An error is passed on, for the framework to log and to answer with 500, which is retried.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final

from tickwheel.receiver.clock import machine_s
from tickwheel.receiver.delivery import TOLERANCE_S, Delivery, Headers, parse_secrets, verify_with_keys
from tickwheel.receiver.refusals import OversizedDelivery, RefusedDelivery
from tickwheel.receiver.turns import Answer, AsyncGuard, Guard, Turn

BODY_LIMIT_BYTES: Final = 1 << 20

Effect = Callable[[Delivery, Any], Answer | None]
AsyncEffect = Callable[[Delivery, Any], Awaitable[Answer | None]]
Connect = Callable[[], AbstractContextManager[Any]]
AsyncConnect = Callable[[], AbstractAsyncContextManager[Any]]


class _Declined(Exception):
    """The effect has not happened, and this is the answer; raised to make the guard undo it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Checks:
    """What is asked of a request before a guard sees it."""

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        tolerance_s: float = TOLERANCE_S,
        now_s: Callable[[], float] = machine_s,
    ) -> None:
        self.keys = parse_secrets(secrets)
        self.body_limit_bytes, self.tolerance_s, self.now_s = body_limit_bytes, tolerance_s, now_s

    def check_size(self, size_bytes: int) -> None:
        """Raises `OversizedDelivery`."""
        if size_bytes > self.body_limit_bytes:
            raise OversizedDelivery(self.body_limit_bytes)

    def pass_(self, headers: Headers, body: bytes) -> Delivery:
        """The delivery. Raises `RefusedDelivery`."""
        self.check_size(len(body))
        return verify_with_keys(headers, body, self.keys, self.now_s(), self.tolerance_s)


class Reception:
    """For effects that are plain functions."""

    def __init__(self, effect: Effect, guard: Guard, connect: Connect, checks: Checks) -> None:
        self._effect, self._guard, self._connect, self.checks = effect, guard, connect, checks

    def receive(self, headers: Headers, body: bytes) -> Answer:
        """What to answer. Errors of the effect, of `connect` and of the driver are passed on."""
        try:
            delivery = self.checks.pass_(headers, body)
            with self._connect() as connection, self._guard.once(connection, delivery) as turn:
                if turn:
                    _keep(turn, self._effect(delivery, turn.connection))
        except RefusedDelivery as refusal:
            return refused(refusal)
        except _Declined as declined:
            return declined.answer
        return turn.answer


class AsyncReception:
    """For effects that are coroutine functions."""

    def __init__(self, effect: AsyncEffect, guard: AsyncGuard, connect: AsyncConnect, checks: Checks) -> None:
        self._effect, self._guard, self._connect, self.checks = effect, guard, connect, checks

    async def receive(self, headers: Headers, body: bytes) -> Answer:
        """As `Reception.receive`."""
        try:
            delivery = self.checks.pass_(headers, body)
            async with self._connect() as connection, self._guard.once(connection, delivery) as turn:
                if turn:
                    _keep(turn, await self._effect(delivery, turn.connection))
        except RefusedDelivery as refusal:
            return refused(refusal)
        except _Declined as declined:
            return declined.answer
        return turn.answer


def refused(refusal: RefusedDelivery) -> Answer:
    """The answer that a refusal asks for; its text is the body."""
    return Answer(refusal.status, f"{refusal.reason}: {refusal}\n".encode(), refusal.retry_after_s)


def header_pairs(answer: Answer) -> list[tuple[str, str]]:
    """The header lines of an answer."""
    pairs = [("content-length", str(len(answer.body)))]
    if answer.body:
        pairs.append(("content-type", "text/plain; charset=utf-8"))
    if answer.retry_after_s is not None:
        pairs.append(("retry-after", str(answer.retry_after_s)))
    if answer.replayed:
        pairs.append(("idempotent-replayed", "true"))
    return pairs


def _keep(turn: Turn, answer: Answer | None) -> None:
    answer = Answer() if answer is None else answer
    if not answer.is_success:
        raise _Declined(answer)
    turn.keep(answer)
