"""What libcurl's end of a transfer means for the attempt.

Error texts are written here and never taken from libcurl: its texts quote addresses, URLs and header parts.
"""

import errno
from functools import lru_cache
from typing import Final

import pycurl

from tickwheel.adapters.webhook.exchange import HEADER_LIMIT_BYTES, Exchange
from tickwheel.domain.outcome import (
    GONE_STATUS,
    Outcome,
    OutcomeClass,
    classify_http,
    parse_retry_after,
)

_TEXTS: Final = {
    pycurl.E_GOT_NOTHING: "the connection was closed before an answer came",
    pycurl.E_SEND_ERROR: "the connection broke while the request was sent",
    pycurl.E_RECV_ERROR: "the connection broke while the answer was read",
    pycurl.E_PARTIAL_FILE: "the answer was cut off",
    pycurl.E_SSL_CONNECT_ERROR: "the TLS handshake failed",
    pycurl.E_PEER_FAILED_VERIFICATION: "the TLS certificate could not be verified",
    pycurl.E_SSL_CACERT_BADFILE: "the certificate bundle could not be read (setting ca_file)",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "the answer is not HTTP",
    pycurl.E_UNSUPPORTED_PROTOCOL: "the answer is not HTTP",
}
_TUNNEL_REFUSED: Final = 300
_E_PROXY: Final = 97
"""CURLE_PROXY, for which pycurl has no name: a SOCKS proxy made no connection."""
_PROXY_TEXTS: Final = {
    pycurl.E_COULDNT_RESOLVE_PROXY: "its name could not be resolved",
    _E_PROXY: "it made no connection",
    pycurl.E_GOT_NOTHING: "it closed the connection",
    pycurl.E_RECV_ERROR: "it closed the connection",
}
_CONNECT_TEXTS: Final = {
    errno.ECONNREFUSED: "the connection was refused",
    errno.EHOSTUNREACH: "there is no route to the host",
    errno.ENETUNREACH: "there is no route to the network",
    errno.ECONNRESET: "the connection was reset",
    errno.EADDRNOTAVAIL: "no local port or address is left for the connection",
    errno.EMFILE: "this process has no file descriptor left",
    errno.ENFILE: "this machine has no file descriptor left",
}


def never_connected(exchange: Exchange, code: int) -> bool:
    """Whether nothing of the request can have reached anybody, so that another address may be tried."""
    if exchange.proxied and exchange.request_count == 0:
        # Whether the proxy can't be reached is the same for all addresses.
        return code == _E_PROXY or exchange.proxy_status >= _TUNNEL_REFUSED
    return exchange.request_count == 0 and code in {pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT}


def kept_alive_broke(exchange: Exchange, code: int) -> bool:
    """Whether a pooled connection turned out to be closed, and libcurl was kept from sending again."""
    return exchange.request_count > 1 and code == pycurl.E_ABORTED_BY_CALLBACK


def outcome_of(exchange: Exchange, code: int, timeout_ms: int, now_ms: int) -> Outcome:
    """The outcome of a transfer that ended with libcurl's `code`; `timeout_ms` is the target's."""
    if code == pycurl.E_OK or exchange.overflowed:
        # Stopped at the size limit: the status came long before.
        return _answered(exchange, now_ms)
    if exchange.misled:
        return permanent("the connection did not lead to the vetted address")
    if exchange.proxied and exchange.request_count == 0:
        return _no_tunnel(exchange, code)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if exchange.request_count == 0:
            return timed_out(f"no connection within {exchange.connect_timeout_ms} ms")
        return timed_out(f"no complete answer within {timeout_ms} ms", exchange.status)
    return retryable(_broken_text(exchange, code), exchange.status)


def _no_tunnel(exchange: Exchange, code: int) -> Outcome:
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return timed_out(f"no connection through the egress proxy within {exchange.connect_timeout_ms} ms")
    if exchange.proxy_status >= _TUNNEL_REFUSED:
        return retryable(f"the egress proxy answered {exchange.proxy_status} and made no connection")
    text = _PROXY_TEXTS.get(code) or _broken_text(exchange, code)
    return retryable(f"through the egress proxy: {text}")


def _answered(exchange: Exchange, now_ms: int) -> Outcome:
    status = exchange.status
    outcome_class = classify_http(status)
    if outcome_class is OutcomeClass.SUCCESS:
        return _success(status)
    retry_after_ms = None
    if outcome_class is OutcomeClass.RETRYABLE and exchange.retry_after is not None:
        retry_after_ms = parse_retry_after(exchange.retry_after.decode("latin-1"), now_ms)
    return Outcome(
        outcome_class=outcome_class,
        http_status=status,
        error=_status_text(status),
        excerpt=exchange.excerpt or None,
        retry_after_ms=retry_after_ms,
    )


def _status_text(status: int) -> str:
    if 300 <= status <= 399:
        return f"answered {status}; redirects are not followed"
    if status == GONE_STATUS:
        return f"answered {status}: the endpoint is gone for good"
    return f"answered {status}"


def _broken_text(exchange: Exchange, code: int) -> str:
    if code == pycurl.E_COULDNT_CONNECT:
        return _CONNECT_TEXTS.get(exchange.system_error, "the connection could not be made")
    if exchange.header_bytes > HEADER_LIMIT_BYTES:
        return "the answer's headers are too large"
    if kept_alive_broke(exchange, code):
        return "the kept-alive connection was closed before an answer came"
    return _TEXTS.get(code, f"the transfer failed (libcurl error {code})")


@lru_cache(maxsize=128)
def _success(status: int) -> Outcome:
    return Outcome(outcome_class=OutcomeClass.SUCCESS, http_status=status)


def retryable(text: str, http_status: int = 0) -> Outcome:
    """A failure that may pass."""
    return Outcome(outcome_class=OutcomeClass.RETRYABLE, http_status=http_status, error=text)


def unsent(text: str) -> Outcome:
    """A failure on this side before anything was sent: it may pass, and the target has no part in it."""
    return Outcome(outcome_class=OutcomeClass.RETRYABLE, error=text, unsent=True)


def permanent(text: str) -> Outcome:
    """A refusal: trying again cannot help."""
    return Outcome(outcome_class=OutcomeClass.PERMANENT, error=text)


def timed_out(text: str, http_status: int = 0) -> Outcome:
    """A deadline passed."""
    return Outcome(outcome_class=OutcomeClass.TIMEOUT, http_status=http_status, error=text)
