"""Handlers by name, and what a handler sees of its run."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from tickwheel.domain.limits import DELAY_SECONDS_MAX
from tickwheel.ports.executor import Work

Function = TypeVar("Function", bound=Callable[..., Any])
NAME_LIMIT_CHARS: Final = 200


class Retry(Exception):
    """Raise it in a handler: the attempt failed, try again by the job's retry policy, but not before `after`."""

    def __init__(
        self, reason: str = "the handler asked for a retry", *, after_seconds: float | None = None
    ) -> None:
        super().__init__(reason)
        self.after_ms = None if after_seconds is None else _wait_ms(after_seconds)


class Snooze(Exception):
    """Raise it in a handler: not now, call me again after this time. Uses up no attempt."""

    def __init__(self, after_seconds: float) -> None:
        super().__init__(f"snoozed for {after_seconds:g} s")
        self.after_ms = _wait_ms(after_seconds)


class Fail(Exception):
    """Raise it in a handler: trying again is no use; the run goes to the dead-letter queue at once."""


class HandlerContext:
    """What a handler knows of its run. `cancelled` turns true when the run was cancelled or lost its lease."""

    __slots__ = ("_work", "cancelled")

    def __init__(self, work: Work) -> None:
        self._work = work
        self.cancelled = False

    def __repr__(self) -> str:
        return f"<HandlerContext {self.run_id} attempt {self.attempt} of {self.max_attempts}>"

    @property
    def run_id(self) -> str:
        """The same for every attempt of the run: use it as the idempotency key of your side effects."""
        return self._work.run_id

    @property
    def job_id(self) -> str:
        """The job, as the API names it."""
        return self._work.job_id_text

    @property
    def tenant_id(self) -> str:
        """The tenant that the job belongs to."""
        return self._work.tenant_id

    @property
    def attempt(self) -> int:
        """This try's number, from 1."""
        return self._work.attempt

    @property
    def max_attempts(self) -> int:
        """Tries that the job's retry policy allows."""
        return self._work.max_attempts

    @property
    def fencing_token(self) -> int:
        """Rises with every attempt of the job: let your database refuse a lower one than it has seen."""
        return self._work.fence

    @property
    def scheduled_at(self) -> datetime:
        """The instant that this run was scheduled for (UTC)."""
        return datetime.fromtimestamp(self._work.scheduled_ms / 1000, UTC)

    @property
    def scheduled_ms(self) -> int:
        """The same as UTC epoch milliseconds."""
        return self._work.scheduled_ms

    @property
    def idempotency_key(self) -> str | None:
        """The job's own key, if it was created with one."""
        return self._work.idempotency_key


class Registered:
    """A handler with the way to call it: its number of arguments (payload, ctx) and whether it is async."""

    __slots__ = ("argument_count", "function", "is_async", "name")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self.is_async = inspect.iscoroutinefunction(function)
        self.argument_count = _argument_count(name, function)


class Handlers:
    """A set of named handlers. Most programs use the default one through `tickwheel.handler`."""

    def __init__(self) -> None:
        self._by_name: dict[str, Registered] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._by_name))

    def handler(self, name: str) -> Callable[[Function], Function]:
        """Register a function, async or plain, as `handler("send_email")`.

        It is called as `function(payload, ctx)`, `function(payload)` or `function()`, by what it accepts;
        `payload` is the decoded JSON (None without one). A plain function runs in a thread of its own.
        """
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT_CHARS:
            raise ValueError(
                f"a handler's name is a text of 1 to {NAME_LIMIT_CHARS} characters, as the job's target"
            )

        def register(function: Function) -> Function:
            known = self._by_name.get(name)
            if known is not None and known.function.__qualname__ != function.__qualname__:
                raise ValueError(f"two handlers are named {name!r}: {known.function!r} and {function!r}")
            self._by_name[name] = Registered(name, function)
            return function

        return register

    def get(self, name: str) -> Registered | None:
        """The handler of that name."""
        return self._by_name.get(name)


default_handlers: Final = Handlers()
"""Where `tickwheel.handler` registers."""


def _wait_ms(seconds: float) -> int:
    """At most what a job may be delayed: an instant beyond that has no date."""
    return int(max(0, min(seconds, DELAY_SECONDS_MAX)) * 1000)


def _argument_count(name: str, function: Callable[..., Any]) -> int:
    positional = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return 2
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional += 1
            if positional > 2 and parameter.default is parameter.empty:
                raise ValueError(f"handler {name!r} may take a payload and a context, not more")
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ValueError(f"handler {name!r} has a keyword argument {parameter.name!r} that nobody gives")
    return min(positional, 2)
