"""Idempotency keys apart from inserts: what the store holds under a key, and a cache of keys that were seen.

The store decides about keys, in the transaction of the insert (`ports.store.JobStore.insert_jobs`). The cache says
no more than "somebody has used this key, as far as I remember": then it is worth looking the key up before an
insert is tried. It may be wrong both ways, at any moment.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tickwheel.ports.store import JobStore

Key: TypeAlias = tuple[str, str]
"""Tenant and idempotency key."""


class KeyHolder(NamedTuple):
    """What a key was first used for."""

    job_id: bytes
    request_hash: bytes
    next_ms: int | None
    created_ms: int


class KeyedStore(JobStore, Protocol):
    """A store that can look keys up."""

    async def find_keys(self, keys: Sequence[Key]) -> Sequence[KeyHolder | None]:
        """What is committed under each of these, in the order given; None: nothing."""
        ...


class KeyCache(Protocol):
    """Both verbs raise `ConnectionError` when it can't be reached."""

    async def seen(self, keys: Sequence[Key]) -> Sequence[bool]:
        """Which of these were noted, as far as is remembered."""
        ...

    async def note(self, keys: Sequence[Key]) -> None:
        """These are used."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
