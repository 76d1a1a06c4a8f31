"""What a node says about itself with each beat."""

from functools import lru_cache
from typing import Final

import msgspec

from tickwheel.domain.scaling import LaneLoad
from tickwheel.domain.vitals import Vitals

SCHEDULER_ROLE: Final = "scheduler"
LARGEST_NOTE_BYTES: Final = 4_096


class NodeNote(msgspec.Struct, frozen=True):
    """The payload of a beat. Nodes of another version may say more or less: what is missing has its default."""

    address: str = ""  # of its peer port, as `Peers.watch` wants it
    name: str = ""  # the node's, for people; two nodes may have the same
    version: str = ""
    roles: tuple[str, ...] = (SCHEDULER_ROLE,)
    unfit: str = ""  # why it must own nothing (its clock is off, ...); empty: fit
    draining: bool = False
    clock_difference_ms: int = 0
    load: tuple[LaneLoad, ...] = ()  # what it has for workers elsewhere, by lane
    vitals: Vitals = Vitals()
    leads: bool = False  # does the chores of all

    @property
    def fires(self) -> bool:
        """Whether it may own shards at all; of one that does not say what it does nobody knows."""
        return not self.roles or SCHEDULER_ROLE in self.roles

    @property
    def is_candidate(self) -> bool:
        """G3: only such nodes are ranked, or a node that gave its shards up would stay on top for ever."""
        return not self.unfit and not self.draining and SCHEDULER_ROLE in self.roles


def encode_note(note: NodeNote) -> bytes:
    """The note as bytes for `Coordinator.beat`."""
    return _ENCODER.encode(note)


def decode_note(payload: bytes) -> NodeNote:
    """The note of somebody else; one that can't be read is that of a node which owns nothing."""
    if len(payload) > LARGEST_NOTE_BYTES:
        return UNREADABLE
    try:
        return _DECODER.decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        return UNREADABLE


def process_name(node_name: str, random: bytes) -> str:
    """A name for this start of this program, different from all others; fit for any line, path or table."""
    readable = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in node_name)
    return f"{readable[:64] or 'node'}-{random.hex()}"


def incarnation_of(process: str, number: int) -> str:
    """The name under which a process (one start of one program) is a member for the `number`th time."""
    return f"{process}.{number}"


@lru_cache(maxsize=1_024)  # asked of each member in each round
def process_of(incarnation: str) -> tuple[str, int]:
    """The process of an incarnation and which of its names it is; number 0 for a name of another kind."""
    process, dot, number = incarnation.rpartition(".")
    if dot and number.isascii() and number.isdecimal() and len(number) < 10:
        return process, int(number)
    return incarnation, 0


UNREADABLE: Final = NodeNote(roles=(), unfit="what it says can't be read")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(NodeNote)
