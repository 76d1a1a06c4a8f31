"""What `tickwheel doctor` says of TLS."""

import ssl
from collections.abc import Iterator
from typing import Final

from cryptography import x509

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.findings import Finding, Level
from tickwheel.interfaces.cli.serving import tls_files
from tickwheel.interfaces.http.tls import SOON_MS, load, others_can_read
from tickwheel.wiring import system_clock

_DAY_MS: Final = 86_400_000


def check_tls(settings: Settings) -> Iterator[Finding]:
    """The certificate, its key and its end; or that there is none where there should be."""
    files = tls_files(settings)
    if files is None:
        if not settings.loopback_only:
            remedy = "Name a certificate (--tls-cert, --tls-key), or let a proxy with TLS stand in front."
            yield Finding("tls", Level.WARN, "off: everybody on the way can read tokens and jobs", remedy)
        return
    try:
        leaf, _ = load(files)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("tls", Level.FAIL, f"{problem.field}: {problem.message}")
        return
    yield _end_of(leaf, files.cert)
    if others_can_read(files.key):
        remedy = "chmod o-r it, and renew the key: it may have been read."
        yield Finding("tls", Level.WARN, f"{files.key} can be read by every user of this machine", remedy)


def _end_of(leaf: x509.Certificate, file: str) -> Finding:
    ends = leaf.not_valid_after_utc
    left_ms = int(ends.timestamp() * 1000) - system_clock().now_ms()
    remedy = "Renew it in place: a running server takes the new one within a minute."
    if left_ms <= 0:
        return Finding("tls", Level.FAIL, f"the certificate in {file} expired on {ends:%Y-%m-%d}", remedy)
    text = f"the certificate in {file} is valid until {ends:%Y-%m-%d}"
    if left_ms < SOON_MS:
        days = left_ms // _DAY_MS
        return Finding("tls", Level.WARN, f"{text}, {days} day{'s' * (days != 1)} from now", remedy)
    return Finding("tls", Level.OK, text)


def shows_certificate(settings: Settings, host: str, seconds: float) -> bool:
    """Whether who listens there has our certificate. That it trusts us is not asked for."""
    files = tls_files(settings)
    if files is None:
        return False
    try:
        leaf, _ = load(files)
        shown = ssl.get_server_certificate((host, settings.port), timeout=seconds)
    except (OSError, ConfigError):
        return False
    return x509.load_pem_x509_certificate(shown.encode()) == leaf
