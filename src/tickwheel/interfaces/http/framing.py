"""What the parser lets through and another server in front may read differently.

Two servers that disagree about where a request ends, or whose it is, can be made to hear different requests: the
rest of one becomes a request of its own ("smuggling"). The parser (llhttp in its strict mode) refuses the known
ones: a length beside a transfer coding, two lengths, signs and blanks in numbers, bare line feeds, folded lines.
This refuses what is left:

- a transfer coding that isn't exactly `chunked`, once, in HTTP/1.1;
- no `Host` in HTTP/1.1, more than one, or one that isn't a host and a port;
- more than one `Authorization`: the server in front may have looked at the other one;
- a target for another host than `Host` says, or with a fragment;
- any version but 1.0 and 1.1: the parser also knows 0.9, and 2.0 in the words of 1.1.

A target is a path with us. The form with a scheme and a host is for proxies, and servers have to take it too.
"""

import re
from functools import lru_cache
from typing import Final

import httptools

from tickwheel.interfaces.http.wire import Header

_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~%-]*)(:[0-9]{0,5})?")
_LONGEST_HOST_BYTES: Final = 300
_SCHEMES: Final = frozenset({b"http", b"https"})
_SINGLE: Final = (b"host", b"transfer-encoding", b"authorization")


def fault_of(headers: list[Header], version: str, method: bytes, url: bytes) -> str:
    """Why the head is refused, or nothing. Names of headers are lower-case."""
    values = dict(headers)
    if len(values) != len(headers):
        names = [name for name, _ in headers]
        for single in _SINGLE:
            if names.count(single) > 1:
                return f"There is more than one {single.decode().title()} header."
    coding = values.get(b"transfer-encoding")
    if coding is not None and (version != "1.1" or coding.lower() != b"chunked"):
        return "Transfer-Encoding must be `chunked`, once, in HTTP/1.1."
    host = values.get(b"host")
    if host is None:
        if version == "1.1":
            return "There is no Host header."
    elif len(host) > _LONGEST_HOST_BYTES or not _is_host(host):
        return "Host is not a host with a port."
    if version not in ("1.1", "1.0"):
        return "This server speaks HTTP/1.1 and 1.0."
    if url[:1] == b"/":
        return "" if b"#" not in url else "The target has a fragment."
    return _fault_of_target(host, method, url)


@lru_cache(maxsize=256)
def _is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None


def _fault_of_target(host: bytes | None, method: bytes, url: bytes) -> str:
    if url == b"*":
        return "" if method == b"OPTIONS" else "Only OPTIONS may ask for `*`."
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return "The target is not a path."
    if target.schema is None or target.schema.lower() not in _SCHEMES or not target.path:
        return "The target is not a path."
    authority = url.split(b"//", 1)[1].split(b"/", 1)[0].split(b"?", 1)[0]
    if b"#" in url or host is None or authority.lower() != host.lower():
        return "The target is for another host than Host says."
    return ""
