"""The proxies that webhooks go through on their way out: `http://user:password@proxy.internal:3128`.

An installation lists them in its settings, with names (`eu=http://…`) if there are several; a tenant's policy
refers to one by its name, so that no tenant brings a proxy or a password of its own.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from tickwheel.domain.egress import DIRECT, PROXY_NAME
from tickwheel.domain.redaction import redacted

DEFAULT_NAME: Final = ""
_DEFAULT_PORTS: Final = {"http": 3128, "https": 443, "socks5": 1080, "socks5h": 1080}
_NAMED: Final = re.compile(rf"(?:({PROXY_NAME.pattern})=)?(.*)", re.ASCII | re.DOTALL)
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]|[^\x00-\x7f]")


class EgressProxy(msgspec.Struct, frozen=True, kw_only=True):
    """One proxy. `resolves`: it is given names and looks them up itself, instead of addresses that were vetted."""

    scheme: str  # http, https or socks5
    host: str  # an IPv6 address without brackets
    port: int
    user: str | None = None
    password: str | None = None
    resolves: bool = False

    def __repr__(self) -> str:
        """Without user and password."""
        return f"EgressProxy({self.scheme}://{self.host}:{self.port}, resolves={self.resolves})"


def read_proxies(texts: Sequence[str], *, resolves: bool = False) -> Mapping[str, EgressProxy]:
    """Proxies by name; the one without a name is that of all who name none.

    Raises ValueError that quotes no address: it may hold a password.
    """
    proxies: dict[str, EgressProxy] = {}
    for text in texts:
        found = _NAMED.fullmatch(text.strip())
        name, url = (found[1] or DEFAULT_NAME, found[2]) if found else (DEFAULT_NAME, text)
        if name == DIRECT:
            raise ValueError(f"{DIRECT!r} stands for no proxy and can't be the name of one")
        if name in proxies:
            raise ValueError(f"{name!r} is given twice" if name else "has two proxies without a name")
        proxies[name] = _proxy(url, resolves)
    return proxies


def shown_proxy(text: str) -> str:
    """A setting's text without its password."""
    name, equals, url = text.partition("=")
    return f"{name}={redacted(url)}" if equals and PROXY_NAME.fullmatch(name) else redacted(text)


def _proxy(url: str, resolves: bool) -> EgressProxy:
    example = (
        "must look like http://proxy.example:3128, https://…, socks5://… or socks5h://…, maybe with NAME= first"
    )
    if _UNSAFE.search(url):
        raise ValueError(example)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(example) from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(example)
    if parts.query or parts.fragment or port == 0 or "%" in parts.hostname:
        raise ValueError(example)
    return EgressProxy(
        scheme=parts.scheme.removesuffix("h"),
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        resolves=resolves or parts.scheme == "socks5h",
    )
