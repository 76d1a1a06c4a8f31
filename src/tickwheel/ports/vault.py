"""The vault: texts that must not be readable in the database, sealed under keys that are not in it.

Sealing is deterministic: the same text in the same context under the same key gives the same sealed text, so
stored definitions can be compared, and caches hold. A context (tenant, where it goes to, its name) is
authenticated and not stored: what was sealed for one target opens for no other.
"""

from typing import Final, Protocol

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.job import Target
from tickwheel.domain.sealed import SEALED, header_context, is_sealed, key_id_of

__all__ = ["NO_VAULT", "SEALED", "CannotOpen", "CannotSign", "Vault", "opened_headers"]


class CannotOpen(TickwheelError):
    """The key is not known here, or the text was not sealed for this context. The text never quotes it."""

    code = "cannot_open"
    retryable = True


class CannotSign(TickwheelError):
    """The signing secret is unknown here, or can't be opened. The text never quotes it."""

    code = "cannot_sign"
    retryable = True


class Vault(Protocol):
    """Safe to use from any thread; costs microseconds."""

    @property
    def seals(self) -> bool:
        """Whether there is a key. Without one `seal` gives texts back as they are."""
        ...

    @property
    def key_id(self) -> str:
        """Of the key that seals now; empty without one."""
        ...

    def seal(self, text: str, context: str) -> str:
        """The sealed text; one that is sealed already is sealed again."""
        ...

    def open(self, text: str, context: str) -> str:
        """The text; one that was never sealed is given back as it is. Raises `CannotOpen`."""
        ...


class _NoVault:
    """What there is without keys."""

    seals = False
    key_id = ""

    def seal(self, text: str, context: str) -> str:
        return text

    def open(self, text: str, context: str) -> str:
        if is_sealed(text):
            raise CannotOpen(f"it is sealed under the key {key_id_of(text)[:32]!r}, and no key is set here")
        return text


NO_VAULT: Final[Vault] = _NoVault()
"""Seals nothing, opens what is not sealed."""


def opened_headers(vault: Vault, tenant_id: str, target: Target) -> tuple[tuple[str, str], ...]:
    """The target's headers as they are sent. Raises `CannotOpen` with the name of the header."""
    for _, value in target.headers:
        if is_sealed(value):
            return tuple((name, _opened(vault, tenant_id, target, name, value)) for name, value in target.headers)
    return target.headers


def _opened(vault: Vault, tenant_id: str, target: Target, name: str, value: str) -> str:
    if not is_sealed(value):
        return value
    try:
        return vault.open(value, header_context(tenant_id, target.endpoint, name))
    except CannotOpen as error:
        raise CannotOpen(f"the header {name} can't be opened: {error}") from None
