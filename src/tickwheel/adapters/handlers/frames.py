"""What a handler's process and its parent say to each other: length and msgpack, over a socket pair.

Nothing is pickled: a function travels as the names of its module and of itself, a payload as its stored bytes.
"""

import struct
from typing import Any, Final, TypeAlias

import msgspec

from tickwheel.adapters.handlers.registry import Registered, module_of
from tickwheel.domain.outcome import Outcome, ProgressNote
from tickwheel.ports.executor import Work

LENGTH: Final = struct.Struct(">I")
ANSWER_LIMIT_BYTES: Final = 1 << 20
"""More than any answer has; a handler that scribbles on its process's line must not fill the parent's memory."""


class Call(msgspec.Struct, frozen=True):
    """One attempt, for the child to make."""

    module: str
    qualname: str
    name: str
    work: Work
    deadline_ms: int | None

    @classmethod
    def of(cls, handler: Registered, work: Work, deadline_ms: int | None) -> "Call":
        """The call of this handler."""
        function = handler.function
        return cls(module_of(function), function.__qualname__, handler.name, work, deadline_ms)


class Said(msgspec.Struct, frozen=True, tag=True):
    """What the handler says of itself."""

    note: ProgressNote


class Ended(msgspec.Struct, frozen=True, tag=True):
    """How the attempt ended. `worn`: the child ends now, for it may not be in a state to go on."""

    outcome: Outcome
    worn: bool = False


Answer: TypeAlias = Said | Ended

_encode: Final = msgspec.msgpack.Encoder().encode
decode_call: Final = msgspec.msgpack.Decoder(Call).decode
decode_answer: Final = msgspec.msgpack.Decoder(Answer).decode


def frame(message: Any) -> bytes:
    """A message with its length before it."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
