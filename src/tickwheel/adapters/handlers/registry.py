"""Handlers by name, and how each is called."""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.payloads import annotation_of, decode_anything, decoder_for

Function = TypeVar("Function", bound=Callable[..., Any])
Arguments: TypeAlias = Callable[[bytes, HandlerContext], tuple[Any, ...]]
NAME_LIMIT_CHARS: Final = 200
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Registered:
    """A handler with the way to call it: which arguments (payload, ctx) it takes, and where it runs."""

    __slots__ = ("arguments", "function", "in_process", "is_async", "name")

    def __init__(self, name: str, function: Callable[..., Any], run_in: str | None = None) -> None:
        self.name, self.function = name, function
        self.is_async = inspect.iscoroutinefunction(function)
        self.in_process = _runs_apart(name, function, run_in)
        parameters = _parameters(name, function)
        try:
            self.arguments = _arguments(function, parameters)
            """From payload and context to what the function is called with. Raises `PayloadMisfit`."""
        except ValueError as error:
            raise ValueError(f"handler {name!r}: {error}") from None


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

    def handler(self, name: str, *, run_in: Literal["process"] | None = None) -> Callable[[Function], Function]:
        """Register a function, async or plain, as `handler("send_email")`.

        It is called as `function(payload, ctx)`, `function(payload)` or `function()`, by what it accepts.
        `payload` is the JSON (None without one), decoded into what the parameter is annotated with. An async
        function runs on the event loop, a plain one in a thread; with `run_in="process"` either runs in a process
        apart, which a crash or too much memory doesn't take others with.
        """
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT_CHARS:
            raise ValueError(
                f"a handler's name is a text of 1 to {NAME_LIMIT_CHARS} characters, as the job's target"
            )

        def register(function: Function) -> Function:
            known = self._by_name.get(name)
            if known is not None and known.function.__qualname__ != function.__qualname__:
                raise ValueError(f"two handlers are named {name!r}: {known.function!r} and {function!r}")
            self._by_name[name] = Registered(name, function, run_in)
            return function

        return register

    def get(self, name: str) -> Registered | None:
        """The handler of that name."""
        return self._by_name.get(name)


default_handlers: Final = Handlers()
"""Where `tickwheel.handler` registers."""


def module_of(function: Callable[..., Any]) -> str:
    """The name under which another process can import the function's module; "" if there is none."""
    name: str = function.__module__
    if name != "__main__":
        return name
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None and not spec.name.endswith("__main__") else ""


def _arguments(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Arguments:
    """A function of its own for each shape: it is called for each run."""
    if not parameters:
        return lambda payload, ctx: ()
    wanted = annotation_of(function, parameters[0])
    alone = len(parameters) == 1
    if alone and wanted is HandlerContext:
        return lambda payload, ctx: (ctx,)
    decode = decoder_for(wanted)
    if decode is not decode_anything:
        return (
            (lambda payload, ctx: (decode(payload),)) if alone else (lambda payload, ctx: (decode(payload), ctx))
        )
    if alone:
        return lambda payload, ctx: (decode(payload) if payload else None,)
    return lambda payload, ctx: (decode(payload) if payload else None, ctx)


def _runs_apart(name: str, function: Callable[..., Any], run_in: str | None) -> bool:
    if run_in is None:
        return False
    if run_in != "process":
        raise ValueError(f"handler {name!r}: run_in is 'process' or left out, not {run_in!r}")
    if "<" in function.__qualname__ or not module_of(function):
        raise ValueError(
            f"handler {name!r} can't run in a process apart: that process imports it by name, so it has to be a "
            "function of a module, neither of the program itself nor within another function"
        )
    return True


def _parameters(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those that a call fills: at most the payload and the context."""
    positional: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.replace(annotation=parameter.empty)
            return [*positional, rest, rest][:2]
        if parameter.kind in _POSITIONAL:
            positional.append(parameter)
            if len(positional) > 2 and parameter.default is parameter.empty:
                raise ValueError(f"handler {name!r} may take a payload and a context, not more")
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ValueError(f"handler {name!r} has a keyword argument {parameter.name!r} that nobody gives")
    return positional[:2]
