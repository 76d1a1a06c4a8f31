"""Keys with revisions: the little that beats and locks need of a coordinator's server.

One verb reads everything as one snapshot, the other changes some keys at once or none, each under the condition
that its key is as it was seen. A change that was sent twice because an answer was lost finds its own condition
broken the second time, so it is harmless.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

ABSENT: Final = 0
"""The revision of a key that doesn't exist."""


class Entry(NamedTuple):
    """A key's value, and the revisions at which it was created and last written. Both rise over all keys."""

    value: bytes
    created: int
    modified: int


class Change(NamedTuple):
    """Write (or delete, or only look at) a key, provided that its `modified` is `seen`."""

    key: str
    seen: int  # ABSENT: it must not exist
    value: bytes | None = None  # None: delete
    only_check: bool = False
    fleeting: bool = False  # the server may drop it when this process has been gone for `FLEETING_S`


FLEETING_S: Final = 600
"""How long a beat outlives its process when nobody cleans up: long, since it is no sign of life or death."""
RENEW_MS: Final = FLEETING_S * 1000 // 4
"""How often a process says that its fleeting keys are still wanted."""


class Refused(ConnectionError):
    """The coordinator answered, and said no: rights, credentials, or an answer that can't be understood."""


class KeyStore(Protocol):
    """All verbs raise `ConnectionError` when no server gives an answer; whether it was written is unknown then."""

    @property
    def described(self) -> str:
        """The servers, for people; without credentials."""
        ...

    async def read(self) -> Mapping[str, Entry]:
        """All keys, as one snapshot that contains every change that was confirmed before this call."""
        ...

    async def swap(self, changes: Sequence[Change]) -> int | None:
        """All changes at once: gives the revision that the written keys have now.

        None when one of the keys was not as it had been seen; nothing was done then.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; keys stay."""
        ...
