"""What the rules have to know of sealed texts: how they look, and what they are bound to.

A sealed text is `tw-sealed:<key id>:<base64url of nonce, ciphertext and tag>`. It opens only in the context that
it was sealed in. That of a header is the tenant, the origin of the endpoint and the name of the header, so a
stored value can be sent to the server that it was given for, and to no other: an edit that moves the endpoint has
to bring the value along again.
"""

import re
from functools import lru_cache
from typing import Final

SEALED: Final = "tw-sealed:"
"""How every sealed text begins."""

HARMLESS_HEADERS: Final = frozenset(
    [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-encoding",
        "content-language",
        "content-type",
        "pragma",
    ]
)
"""Headers (lower case) whose values are no secrets by what they mean: stored as they are, and free to move."""

_OWN_BYTES: Final = 12 + 16
"""Nonce and tag."""
_SEPARATOR: Final = "\x1f"
"""No tenant, origin, name or id holds it."""
_ORIGIN: Final = re.compile(r"(https?)://([^/?#]*?)(?::(\d+))?(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


def is_sealed(text: str) -> bool:
    """Whether it was sealed, rather than given."""
    return text.startswith(SEALED)


def key_id_of(sealed: str) -> str:
    """The id of the key that a text was sealed under."""
    return sealed.removeprefix(SEALED).partition(":")[0]


def plain_length(text: str) -> int:
    """How long the text is once it is opened, in bytes; that of one that is not sealed, as it is."""
    if not is_sealed(text):
        return len(text)
    encoded = text.rpartition(":")[2]
    return max(0, len(encoded) * 3 // 4 - _OWN_BYTES)


@lru_cache(maxsize=4096)
def origin_of(endpoint: str) -> str:
    """`scheme://host:port` of an address, in small letters and with the port written out.

    Hosts are compared as they are written: another spelling of the same address counts as another origin.
    """
    found = _ORIGIN.fullmatch(endpoint)
    if found is None:
        return endpoint
    scheme, host, port = found[1].lower(), found[2].lower(), found[3]
    return f"{scheme}://{host}:{int(port) if port else _DEFAULT_PORTS[scheme]}"


def header_context(tenant_id: str, endpoint: str, name: str) -> str:
    """What the value of a header is bound to."""
    return _SEPARATOR.join(("header", tenant_id, origin_of(endpoint), name.lower()))


def signing_context(tenant_id: str, name: str, key_id: str) -> str:
    """What a key of a signing secret is bound to."""
    return _SEPARATOR.join(("signing secret", tenant_id, name, key_id))
