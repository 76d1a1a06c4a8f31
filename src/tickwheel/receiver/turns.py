"""What a guard grants, and what every guard promises.

A guard keeps, per run id, the highest fencing token that it has let through and whether the effect is recorded:

    with guard.once(connection, delivery) as first:
        if first:
            ...  # the effect
    # here: the effect is recorded, by us or by an earlier delivery. Answer 2xx.

`once` raises `StaleDelivery` for a token lower than one that was here before, and `DeliveryInProgress` while
another delivery of the run is being worked on; neither may be answered with 2xx. When the effect raises, nothing
of the run is recorded but its token, and the error goes on to the caller.
"""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tickwheel.receiver.delivery import Delivery

KEPT_BODY_LIMIT_BYTES: Final = 65_536
"""The most of an answer's body that is recorded; a longer one is dropped whole."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer. `retry_after_s` is a length in seconds; `replayed`: an earlier delivery gave it first."""

    status: int = 200
    body: bytes = b""
    retry_after_s: int | None = None
    replayed: bool = False

    @property
    def is_success(self) -> bool:
        """Whether Tickwheel takes it for one."""
        return 200 <= self.status <= 299


class Turn:
    """True where the effect is ours to make.

    `answer` is what is recorded with it, or was by an earlier delivery. `connection` is what the effect should use
    to be in one transaction with the record.
    """

    def __init__(self, connection: Any, recorded: Answer | None = None) -> None:
        self.connection = connection
        self.first = recorded is None
        self.answer = Answer() if recorded is None else replace(recorded, replayed=True)

    def __bool__(self) -> bool:
        return self.first

    def keep(self, answer: Answer) -> None:
        """Record this with the effect; repeated deliveries get it too. Raises ValueError unless it is 2xx."""
        if not self.first:
            raise ValueError("the effect is recorded already, with its answer")
        if not answer.is_success:
            raise ValueError(f"{answer.status} is no success: raise an error, so that the effect is undone")
        self.answer = answer

    def kept(self) -> tuple[int, bytes]:
        """Status and body as a guard records them."""
        body = self.answer.body
        return self.answer.status, body if len(body) <= KEPT_BODY_LIMIT_BYTES else b""


class Guard(Protocol):
    """See above. What a connection is, each guard says."""

    def once(self, connection: Any, delivery: Delivery) -> AbstractContextManager[Turn]:
        """Whether the effect of this run is to be made now. Raises `StaleDelivery`, `DeliveryInProgress`."""
        ...


class AsyncGuard(Protocol):
    """The same for coroutines."""

    def once(self, connection: Any, delivery: Delivery) -> AbstractAsyncContextManager[Turn]:
        """As `Guard.once`."""
        ...
