"""Reading a target URL so strictly that no other parser can read it differently.

The URL that libcurl gets is put together again from what was understood here. So "what was vetted" and "what
is called" cannot drift apart, which is the usual hole: `http://good.example\\@169.254.169.254/`, numbers that
one side takes for a name and the other for an address (`http://2130706433/`, `0177.0.0.1`), line breaks.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote

from tickwheel.domain.egress import Address

URL_LIMIT_CHARS: Final = 4096
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.ASCII)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::(\d{0,5}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_ASCII_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class EndpointRefused(ValueError):
    """The URL is not one that may be called; the text never quotes it beyond the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A target URL, taken apart. `address` is set when the host is an address literal."""

    url: str  # rebuilt: lower-case host, no default port, no fragment, ASCII only
    host: str  # without a trailing dot or brackets
    port: int
    address: Address | None

    @property
    def authority(self) -> str:
        """Names the host for limits and for the connection pool."""
        return f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Take an http or https URL apart. Raises `EndpointRefused` with a text that is safe to show."""
    if len(text) > URL_LIMIT_CHARS:
        raise EndpointRefused(f"the endpoint is longer than {URL_LIMIT_CHARS} characters")
    if _UNSAFE.search(text):
        raise EndpointRefused("the endpoint has a space, a control character or a backslash in it")
    match = _URL.fullmatch(text)
    if match is None:
        raise EndpointRefused("the endpoint is not an http:// or https:// URL")
    scheme, authority, rest = match[1].lower(), match[2], match[3]
    if "@" in authority:
        raise EndpointRefused("the endpoint has a user name or password in it; send a header instead")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or not parts[1]:
        raise EndpointRefused("the endpoint has no valid host and port")
    port = int(parts[2]) if parts[2] else _DEFAULT_PORTS[scheme]
    if not 1 <= port <= 65535:
        raise EndpointRefused("the endpoint's port is not within 1..65535")
    host, address = _parse_host(parts[1])
    shown = f"[{host}]" if isinstance(address, IPv6Address) else host
    suffix = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    path = rest if rest.startswith("/") else f"/{rest}"
    url = f"{scheme}://{shown}{suffix}{quote(path, safe=_ASCII_PRINTABLE)}"
    return Endpoint(url=url, host=host, port=port, address=address)


def _parse_host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    if not text.isascii():  # asked before letters are made small, which turns some others into ASCII
        raise EndpointRefused("the endpoint's host is not ASCII; write its xn-- form")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise EndpointRefused("the endpoint's host is not a valid name")
    if not _NUMBER.fullmatch(labels[-1]):
        return name, None
    # A name that ends in a number is read as an IPv4 address by some parsers, in forms that differ.
    try:
        address = IPv4Address(name)
    except ValueError:
        raise EndpointRefused(
            "the endpoint's host looks like an IPv4 address in an odd form; write four decimal numbers"
        ) from None
    return str(address), address


def _parse_ipv6(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise EndpointRefused("the endpoint's IPv6 address has a zone")
    try:
        address = IPv6Address(text)
    except ValueError:
        raise EndpointRefused("the endpoint's host is not a valid IPv6 address") from None
    return str(address), address
