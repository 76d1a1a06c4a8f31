"""What a target may be: addresses, header names and values, handler names.

Each check gives None, or what is wrong and how to put it right.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from tickwheel.domain import limits
from tickwheel.domain.sealed import SEALED, is_sealed

_ENDPOINT: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}))(?::(\d{1,5}))?(?:[/?][\x21\x23-\x7e]*)?",
    re.ASCII | re.IGNORECASE,
)
_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_HANDLER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?", re.ASCII)

CONNECTION_HEADERS: Final = frozenset(
    [
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""They belong to one connection; the client that sends the request sets them."""
OWN_HEADERS: Final = frozenset(
    [
        "idempotency-key",
        "traceparent",
        "tracestate",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
        "x-attempt",
        "x-fencing-token",
        "x-idempotency-key",
        "x-job-id",
        "x-max-attempts",
        "x-scheduled-at",
        "x-tenant-id",
    ]
)
"""Set by Tickwheel on each attempt."""


@lru_cache(maxsize=8192)
def endpoint_fault(endpoint: str) -> str | None:
    """Of the address of a webhook."""
    if len(endpoint) > limits.ENDPOINT_CHARS:
        return f"has {len(endpoint)} characters; at most {limits.ENDPOINT_CHARS} are allowed"
    found = _ENDPOINT.fullmatch(endpoint)
    if found is not None and "#" not in endpoint and (found[1] is None or 1 <= int(found[1]) <= 65_535):
        return None
    return _explain_endpoint(endpoint)


def _explain_endpoint(endpoint: str) -> str:
    scheme, separator, rest = endpoint.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not separator or scheme.lower() not in {"http", "https"}:
        return "must start with http:// or https://"
    if "@" in host:
        return "must not carry credentials; put them into target.headers (Authorization)"
    if "#" in rest:
        return "must not have a fragment (#...); it is never sent"
    if any(not "\x21" <= char <= "\x7e" for char in endpoint):
        return "has a blank, a control or a non-ASCII character; percent-encode it (a host name: punycode)"
    if '"' in rest:
        return "has a double quote; write it as %22"
    return "has no valid host and port; expected such as https://example.com:8443/path"


def handler_name_fault(name: str) -> str | None:
    """Of the name of a Python handler."""
    if len(name) > limits.HANDLER_NAME_CHARS:
        return f"has {len(name)} characters; at most {limits.HANDLER_NAME_CHARS} are allowed"
    if _HANDLER.fullmatch(name) is None:
        return "must be letters, digits, _ . : - and start with a letter, a digit or _"
    return None


def secret_name_fault(name: str) -> str | None:
    """Of the name of a signing secret; it is a part of paths."""
    if not 1 <= len(name) <= limits.SECRET_NAME_CHARS:
        return f"has {len(name)} characters; 1 to {limits.SECRET_NAME_CHARS} are allowed"
    if _SECRET_NAME.fullmatch(name) is None:
        return "must be letters, digits, _ . - and start with a letter or a digit"
    return None


def header_faults(headers: Mapping[str, str]) -> list[tuple[str | None, str]]:
    """(header name, None for all of them, fault) of all that is wrong with the headers of a webhook."""
    return list(_header_faults(tuple(headers.items())))


@lru_cache(maxsize=4096)
def _header_faults(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str | None, str], ...]:
    faults: list[tuple[str | None, str]] = []
    if len(headers) > limits.HEADER_COUNT:
        faults.append((None, f"has {len(headers)} headers; at most {limits.HEADER_COUNT} are allowed"))
    if sum(len(name) + len(value) for name, value in headers) > limits.HEADERS_BYTES:
        faults.append((None, f"is over {limits.HEADERS_BYTES} bytes in all"))
    seen: set[str] = set()
    for name, value in headers:
        fault = _header_name_fault(name, seen) or _header_value_fault(value)
        seen.add(name.lower())
        if fault is not None:
            faults.append((name, fault))
    return tuple(faults)


def _header_name_fault(name: str, seen: set[str]) -> str | None:
    lower = name.lower()
    if len(name) > limits.HEADER_NAME_CHARS:
        return f"has a name of {len(name)} characters; at most {limits.HEADER_NAME_CHARS} are allowed"
    if _HEADER_NAME.fullmatch(name) is None:
        return "is not a header name: letters, digits and !#$%&'*+-.^_`|~ only"
    if lower in seen:
        return "is given twice (header names ignore case)"
    if lower in CONNECTION_HEADERS:
        return "belongs to the connection and can't be set; leave it out"
    if lower in OWN_HEADERS:
        return "is set by Tickwheel on each attempt; leave it out"
    return None


def _header_value_fault(value: str) -> str | None:
    if len(value) > limits.HEADER_VALUE_CHARS:
        return f"has a value of {len(value)} characters; at most {limits.HEADER_VALUE_CHARS} are allowed"
    if _HEADER_VALUE.fullmatch(value) is None:
        return "has a value with a line break, control or non-ASCII character, or a blank at an end"
    if is_sealed(value):
        return f"has a value that begins with {SEALED}, as only values do that Tickwheel has sealed"
    return None
