"""The coordinator: says who is alive, never who owns.

Ownership is an epoch in the store and part of every write of an owner. So a wrong or missing answer from here
delays a takeover, or makes two nodes try one, and never lets two of them own.

**Liveness.** A node writes a counter that rises with each beat. An observer reads all of them and times, on its
own monotonic clock, how long a counter has not changed; no clock is ever compared with another machine's, and
no instant is stored here. Three rules make that safe:

- An observer trusts an absence only for time in which its *own* beats were written and read back. After one of
  them failed, all its absences start anew: or a restart of the coordinator would make everybody look dead.
- The name is the incarnation (one start of one process), never the node: a second process under an old name is
  somebody else.
- Beats come from the loop that fires, and only while its store answers: or a process that hangs would be alive
  for ever. What makes a node unfit (clock, draining, other roles) goes into the payload, for all to see.

**Locks** choose one node for chores that would be wasteful to do twice (sweeps, exports). A lock lives on its
holder's beats. A holder that was paused doesn't know yet that it lost the lock, so each acquisition has a higher
token, by which the chore's writes can be guarded; firing never depends on a lock.

Every verb raises `ConnectionError` when the coordinator can't be reached; membership is frozen then, and firing
goes on.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Beat(msgspec.Struct, frozen=True, gc=False):
    """The latest sign of life of an incarnation: only a *change* of `counter` means anything."""

    counter: int
    payload: bytes  # what the node says about itself; opaque here


class Coordinator(Protocol):
    """Beats and locks. Any node may call everything."""

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        """Show this as the incarnation's latest beat; the first one makes it a member.

        A counter that is not higher than the one shown is ignored, so a beat that was held up on its way is no
        sign of life and hides no newer one.
        """
        ...

    async def members(self) -> Mapping[str, Beat]:
        """The latest beat of each incarnation, as one snapshot.

        Those that went silent are included, for silence is the observer's to judge.
        """
        ...

    async def leave(self, incarnation: str) -> None:
        """Forget the incarnation and release its locks; unknown ones are ignored.

        Called by a node that has stopped, or by one that has proved another dead. Should that one beat again
        all the same, it is a member again, without its locks.
        """
        ...

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        """The token, higher than any given for that name before; None while another incarnation holds it.

        The holder gets its token again, so asking twice after a lost reply is harmless. None also for an
        incarnation that is not beating. The lock is lost, for good, once the holder's beats have not changed for
        the coordinator's `lapse_ms`.
        """
        ...

    async def release_lock(self, name: str, incarnation: str) -> None:
        """Give the lock up; ignored unless that incarnation holds it."""
        ...

    async def lock_holder(self, name: str) -> str | None:
        """The incarnation that holds the lock now."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. Not a leave: the beats just end."""
        ...
