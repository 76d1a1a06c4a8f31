"""One pooled libcurl handle, and what it learns about the answer to the request that it carries.

The request goes to the vetted address and nowhere else: `CONNECT_TO` names that address, which makes it a part
of the key under which libcurl keeps connections, so that a pooled connection to another address is never taken
for it; and before each request libcurl tells us where the connection leads, which has to be that address.

Through a proxy the same name is what the tunnel is asked for, and what its connections are kept by (with the
proxy's address and credentials). There libcurl tells us the proxy's address, so that the tunnel leads where it was
asked to is the proxy's word.

The same call is what keeps one token to one request. When a kept-alive connection breaks before any byte of
the answer came, libcurl sends the request again on its own; but the server may have acted on the first one,
and a target must never see an equal token twice. The second call therefore ends the transfer.
"""

from ipaddress import ip_address
from typing import Any, Final

import pycurl

from tickwheel.adapters.curl.curl_loop import EasyHandle
from tickwheel.adapters.webhook.settings import IDLE_CONNECTION_S, WebhookSettings
from tickwheel.domain.egress_proxy import EgressProxy
from tickwheel.domain.outcome import NOTE_LIMIT_BYTES

_KEPT_PAYLOAD_BYTES: Final = 4096  # larger ones are let go when the handle returns to the pool
_STOP: Final = -1
HEADER_LIMIT_BYTES: Final = 65_536
_RETRY_AFTER: Final = b"retry-after:"
_SUPPRESS_CONNECT_HEADERS: Final = 265
"""CURLOPT_SUPPRESS_CONNECT_HEADERS, for which pycurl has no name: a proxy's headers are none of the answer's."""
_SCHEMES: Final = {"http": "http", "https": "https", "socks5": "socks5h"}
"""Names are given to the proxy as they are: what it gets is an address already, or it is told to look up."""


class Exchange:
    """A libcurl handle with the options that never change; `prepare` sets the others for one request."""

    __slots__ = (
        "_address",
        "_body_limit_bytes",
        "_connect_to",
        "_fresh",
        "_method",
        "_payload",
        "_proxy",
        "_timeout_ms",
        "_url",
        "attempt",
        "body_bytes",
        "connect_timeout_ms",
        "excerpt",
        "handle",
        "header_bytes",
        "misled",
        "request_count",
        "retry_after",
    )

    def __init__(self, settings: WebhookSettings) -> None:
        self.attempt: Any = None  # the executor's record of the attempt that it carries
        self._body_limit_bytes = settings.body_limit_bytes
        self._address = ""
        self._connect_to = ""
        self._fresh = False
        self._method: tuple[str, bool] | None = None
        self._payload = b""
        self._proxy: EgressProxy | None = None
        self._url = ""
        self._timeout_ms = self.connect_timeout_ms = -1
        self.handle = self._make_handle(settings)
        self._forget_answer()

    def _make_handle(self, settings: WebhookSettings) -> EasyHandle:
        handle = pycurl.Curl()
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        handle.setopt(pycurl.FOLLOWLOCATION, 0)
        handle.setopt(pycurl.PROXY, "")  # whatever the environment says
        handle.setopt(pycurl.NOPROXY, "*")
        handle.setopt(pycurl.HTTPPROXYTUNNEL, 1)
        handle.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        handle.setopt(pycurl.PROXY_SSL_VERIFYPEER, 1)
        handle.setopt(pycurl.PROXY_SSL_VERIFYHOST, 2)
        handle.setopt(pycurl.SSL_VERIFYPEER, 1)
        handle.setopt(pycurl.SSL_VERIFYHOST, 2)
        handle.setopt(pycurl.MAXAGE_CONN, IDLE_CONNECTION_S)
        handle.setopt(pycurl.USERAGENT, settings.user_agent)
        handle.setopt(pycurl.PREREQFUNCTION, self._on_request)
        handle.setopt(pycurl.HEADERFUNCTION, self._on_header)
        handle.setopt(pycurl.WRITEFUNCTION, self._on_body)
        if settings.ca_file is not None:
            handle.setopt(pycurl.CAINFO, settings.ca_file)
            handle.setopt(pycurl.PROXY_CAINFO, settings.ca_file)
        return handle

    def prepare(
        self,
        *,
        url: str,
        address: str,
        port: int,
        proxy: EgressProxy | None,
        fresh: bool,
        method: str,
        payload: bytes,
        header_lines: list[bytes | str],
        timeout_ms: int,
        connect_timeout_ms: int,
    ) -> None:
        """Set the handle up for a request to `url` at `address`: text of a vetted IP address, or a proxy's matter.

        `fresh` keeps it away from kept-alive connections. Raises pycurl.error for what libcurl refuses.
        """
        handle = self.handle
        self._forget_answer()
        self._address = address
        shown = f"[{address}]" if ":" in address else address
        connect_to = f"::{shown}:{port}"
        if connect_to != self._connect_to:
            handle.setopt(pycurl.CONNECT_TO, [connect_to])
            self._connect_to = connect_to
        if proxy is not self._proxy:
            self._set_proxy(proxy)
        if url != self._url:
            handle.setopt(pycurl.URL, url)
            self._url = url
        self._set_method(method, payload)
        handle.setopt(pycurl.HTTPHEADER, header_lines)
        if fresh != self._fresh:
            handle.setopt(pycurl.FRESH_CONNECT, fresh)
            handle.setopt(pycurl.FORBID_REUSE, fresh)
            self._fresh = fresh
        if timeout_ms != self._timeout_ms:
            handle.setopt(pycurl.TIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        if connect_timeout_ms != self.connect_timeout_ms:
            handle.setopt(pycurl.CONNECTTIMEOUT_MS, connect_timeout_ms)
            self.connect_timeout_ms = connect_timeout_ms

    def _set_proxy(self, proxy: EgressProxy | None) -> None:
        handle = self.handle
        handle.unsetopt(pycurl.PROXYUSERPWD)
        if proxy is None:
            handle.setopt(pycurl.PROXY, "")
            handle.setopt(pycurl.NOPROXY, "*")
        else:
            host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
            handle.setopt(pycurl.PROXY, f"{_SCHEMES[proxy.scheme]}://{host}:{proxy.port}")
            handle.setopt(pycurl.NOPROXY, "")
            if proxy.user is not None:
                handle.setopt(pycurl.PROXYUSERNAME, proxy.user.encode())
                handle.setopt(pycurl.PROXYPASSWORD, (proxy.password or "").encode())
        self._proxy = proxy

    def _set_method(self, method: str, payload: bytes) -> None:
        handle = self.handle
        has_body = method != "HEAD" and (bool(payload) or method in {"POST", "PUT", "PATCH"})
        if (method, has_body) != self._method:
            handle.setopt(pycurl.HTTPGET, 1)  # undoes what the other two set
            if has_body:
                handle.setopt(pycurl.POST, 1)
            elif method == "HEAD":
                handle.setopt(pycurl.NOBODY, 1)
            handle.setopt(pycurl.CUSTOMREQUEST, method)
            self._method = (method, has_body)
        if has_body:
            handle.setopt(pycurl.POSTFIELDS, payload)
            self._payload = payload

    def release(self) -> None:
        """Back to the pool: drop what is large."""
        self.attempt = None
        self.excerpt = b""
        if len(self._payload) > _KEPT_PAYLOAD_BYTES:
            self.handle.setopt(pycurl.POSTFIELDS, b"")
            self._payload = b""

    def close(self) -> None:
        """Free the handle; it must not be in a transfer."""
        self.handle.close()

    @property
    def status(self) -> int:
        """The HTTP status of the answer, 0 if none came."""
        return int(self.handle.getinfo(pycurl.RESPONSE_CODE))

    @property
    def overflowed(self) -> bool:
        """Whether reading stopped because the answer was too long."""
        return self.body_bytes > self._body_limit_bytes

    @property
    def system_error(self) -> int:
        """The errno of a failed connect, or 0."""
        return int(self.handle.getinfo(pycurl.OS_ERRNO))

    @property
    def proxied(self) -> bool:
        """Whether the request goes through a proxy."""
        return self._proxy is not None

    @property
    def proxy_status(self) -> int:
        """What an HTTP proxy answered to the wish for a tunnel, 0 if nothing."""
        return int(self.handle.getinfo(pycurl.HTTP_CONNECTCODE))

    def _forget_answer(self) -> None:
        self.request_count = 0
        self.misled = False
        self.retry_after: bytes | None = None
        self.excerpt = b""
        self.body_bytes = 0
        self.header_bytes = 0

    def _on_request(self, address: str, _local: str, _port: int, _local_port: int) -> int:
        self.request_count += 1
        self.misled = self._proxy is None and self._leads_elsewhere(address)
        ok = self.request_count == 1 and not self.misled
        return int(pycurl.PREREQFUNC_OK if ok else pycurl.PREREQFUNC_ABORT)

    def _leads_elsewhere(self, address: str) -> bool:
        return address != self._address and ip_address(address) != ip_address(self._address)

    def _on_header(self, line: bytes) -> int | None:
        self.header_bytes += len(line)
        if self.header_bytes > HEADER_LIMIT_BYTES:
            return _STOP
        if line[: len(_RETRY_AFTER)].lower() == _RETRY_AFTER:
            self.retry_after = line[len(_RETRY_AFTER) :]
        return None

    def _on_body(self, chunk: bytes) -> int | None:
        self.body_bytes += len(chunk)
        missing_bytes = NOTE_LIMIT_BYTES - len(self.excerpt)
        if missing_bytes > 0:
            self.excerpt += chunk[:missing_bytes]
        return _STOP if self.overflowed else None
