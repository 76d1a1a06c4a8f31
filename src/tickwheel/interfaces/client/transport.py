"""One HTTP request at a time through libcurl: an easy handle per thread, kept alive between requests.

A handle is used by its own thread only, so nothing is locked. A process that has forked does not touch the
parent's connections: the handle of another process id is left alone and a new one made.
"""

import os
import re
import ssl
import threading
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pycurl

from tickwheel.config import LOOPBACK_HOSTS, ServerTrust
from tickwheel.domain.redaction import redacted
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.errors import RequestTimedOut, ServerUnreachable
from tickwheel.interfaces.client.flow import NoReply, Reply

_PLAIN: Final = re.compile(r"[!-~]+")
DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
CONNECT_TIMEOUT_MS: Final = 5_000
_CA_FILES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_NEVER_SENT: Final = frozenset(
    {
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_CERTPROBLEM,
    }
)
_NOT_TRUSTED: Final = "name the authority that signed its certificate (ca_file, --ca-file, TICKWHEEL_CA_FILE)"
_NOT_KNOWN: Final = (
    "does the server speak TLS? If it asks for a certificate, name one (client_cert, --client-cert, "
    "TICKWHEEL_CLIENT_CERT)"
)
_BROKEN_OFF: Final = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_RECV_ERROR, pycurl.E_GOT_NOTHING})
_HINTS: Final = {
    pycurl.E_PEER_FAILED_VERIFICATION: _NOT_TRUSTED,
    pycurl.E_SSL_CACERT_BADFILE: "the file with authorities (ca_file) must hold certificates in PEM",
    pycurl.E_SSL_CERTPROBLEM: "client_cert and client_key must be PEM files that belong together",
}


class Transport:
    """Sends calls to one server. Thread-safe; `close` when no request is under way."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None,
        timeout_ms: int,
        trust: ServerTrust = ServerTrust(),  # noqa: B008 - a value
        headers: tuple[str, ...] = (),
    ) -> None:
        self.base_url = check_url(base_url)
        self._host = urlsplit(self.base_url).hostname or ""
        self._timeout_ms = timeout_ms
        self._trust, self._ca_file = trust, trust.ca_file or find_ca_file()
        common = ["Accept: application/json", "Expect:", *headers]
        if token:
            common.append(f"Authorization: Bearer {token}")
        self._headers = common
        self._json_headers = [*common, "Content-Type: application/json"]
        self._local = threading.local()

    def send(self, call: Call[Any]) -> Reply | NoReply:
        """Send it once. Never raises for what the network or the server does."""
        handle = self._handle()
        body, url = BytesIO(), self.base_url + call.path
        fields: dict[bytes, bytes] = {}
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.PATH_AS_IS, 1)  # a name may be `..`, and stays a part of its own
        self._set_request(handle, call)
        handle.setopt(pycurl.WRITEFUNCTION, body.write)
        handle.setopt(pycurl.HEADERFUNCTION, lambda line: _note_header(fields, line))
        try:
            handle.perform()
        except pycurl.error as error:
            return self._no_reply(handle, error)
        return Reply(
            status=handle.getinfo(pycurl.RESPONSE_CODE),
            content_type=fields.get(b"content-type", b"").decode("latin-1"),
            retry_after=fields.get(b"retry-after", b"").decode("latin-1"),
            replayed=fields.get(b"idempotent-replayed") == b"true",
            body=body.getvalue(),
            took_ms=_took_ms(handle),
            url=url,
        )

    def close(self) -> None:
        """Close this thread's connection; those of other threads close with their threads."""
        kept: tuple[int, pycurl.Curl] | None = getattr(self._local, "handle", None)
        if kept is not None and kept[0] == os.getpid():
            kept[1].close()
        self._local = threading.local()

    def _handle(self) -> pycurl.Curl:
        kept: tuple[int, pycurl.Curl] | None = getattr(self._local, "handle", None)
        pid = os.getpid()
        if kept is not None and kept[0] == pid:
            return kept[1]
        handle = self._new_handle()
        self._local.handle = (pid, handle)
        return handle

    def _new_handle(self) -> pycurl.Curl:
        handle = pycurl.Curl()
        options: list[tuple[int, Any]] = [
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),  # the token must not travel elsewhere
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
            (pycurl.TCP_NODELAY, 1),
            (pycurl.CONNECTTIMEOUT_MS, min(CONNECT_TIMEOUT_MS, self._timeout_ms)),
            (pycurl.TIMEOUT_MS, self._timeout_ms),
            (pycurl.USERAGENT, f"tickwheel-client/{version('tickwheel')}"),
        ]
        if self._ca_file:
            options.append((pycurl.CAINFO, self._ca_file))
        if self._trust.client_cert:
            options.append((pycurl.SSLCERT, self._trust.client_cert))
            options.append((pycurl.SSLKEY, self._trust.client_key or self._trust.client_cert))
        if self._host in LOOPBACK_HOSTS:
            options.append((pycurl.PROXY, ""))
        for option, value in options:
            handle.setopt(option, value)
        return handle

    def _set_request(self, handle: pycurl.Curl, call: Call[Any]) -> None:
        more = [] if call.if_match is None else [f"If-Match: {call.if_match}"]
        if call.idempotency_key is not None:
            more.append(f"Idempotency-Key: {call.idempotency_key}")
        if call.body is not None:
            handle.setopt(pycurl.POSTFIELDS, call.body)
            handle.setopt(pycurl.HTTPHEADER, [*self._json_headers, *more])
        elif call.method in ("GET", "DELETE"):
            handle.setopt(pycurl.HTTPGET, 1)
            handle.setopt(pycurl.HTTPHEADER, [*self._headers, *more])
        else:
            handle.setopt(pycurl.POSTFIELDS, b"")
            handle.setopt(pycurl.HTTPHEADER, [*self._headers, "Content-Type:", *more])
        # HTTPGET and POSTFIELDS choose a method of their own, so ours comes last.
        handle.setopt(pycurl.CUSTOMREQUEST, call.method)
        # When a kept connection turns out to be closed, libcurl sends again by itself; a new one it trusts.
        handle.setopt(pycurl.FRESH_CONNECT, 0 if call.repeatable else 1)

    def _no_reply(self, handle: pycurl.Curl, error: pycurl.error) -> NoReply:
        code, text = error.args[0], str(error.args[1])
        never_sent = code in _NEVER_SENT or (code == pycurl.E_OPERATION_TIMEDOUT and not _connected(handle))
        if code == pycurl.E_OPERATION_TIMEDOUT and not never_sent:
            message = f"{self.base_url} did not answer within {self._timeout_ms / 1000:g} s"
            return NoReply(RequestTimedOut(message), True, _took_ms(handle))
        hint = _HINTS.get(code, "is the server running, and is the address right?")
        if code in _BROKEN_OFF and self.base_url.startswith("https:") and not self._trust.client_cert:
            hint = _NOT_KNOWN
        message = f"no answer from {self.base_url}: {text}; {hint}"
        return NoReply(ServerUnreachable(message), not never_sent, _took_ms(handle))


def check_url(url: str) -> str:
    """The address without a trailing slash. Raises `ValueError` for what is no http(s) address."""
    shown = repr(redacted(url))
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its text may hold a password
        is_server = False
    if not is_server or not _PLAIN.fullmatch(url):
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:8080")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError(f"{shown} may hold a path, but no query, fragment or user name")
    return url.rstrip("/")


def find_ca_file() -> str | None:
    """The machine's certificates: a binary wheel's libcurl knows only where its builder has them."""
    candidates = (ssl.get_default_verify_paths().cafile, *_CA_FILES)
    return next((path for path in candidates if path and Path(path).is_file()), None)


def _note_header(fields: dict[bytes, bytes], line: bytes) -> None:
    name, colon, value = line.partition(b":")
    if colon:
        fields[name.strip().lower()] = value.strip()


def _took_ms(handle: pycurl.Curl) -> int:
    return int(handle.getinfo(pycurl.TOTAL_TIME) * 1000)


def _connected(handle: pycurl.Curl) -> bool:
    return bool(handle.getinfo(pycurl.PRETRANSFER_TIME))
