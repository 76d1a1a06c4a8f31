"""TLS of the server: certificate and key from files, checked with names, and read again when they are renewed.

Whoever renews a certificate replaces files, one after the other; for a moment they may not belong together. So a
new pair is tried apart from the one in use, and taken only when it is whole. Otherwise the old one stays, the log
says why, and the files are looked at again when they change again.

A renewed certificate is for new connections; those that are open keep what they agreed on.
"""

import ssl
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tickwheel.domain.errors import ConfigError, FieldProblem

SOON_MS: Final = 14 * 86_400_000
"""A certificate that ends within two weeks should have been renewed: most are, a month before."""

_log: Final = structlog.get_logger()


class TlsFiles(msgspec.Struct, frozen=True):
    """Where things are. With `client_ca`, clients need a certificate that it has signed."""

    cert: str
    key: str
    key_password: str = ""
    client_ca: str = ""

    def __repr__(self) -> str:
        """Without the password."""
        return f"TlsFiles(cert={self.cert!r}, key={self.key!r}, client_ca={self.client_ca!r})"


class Certificates:
    """What new connections are served with: `context`. Raises `ConfigError` where the files won't do."""

    def __init__(self, files: TlsFiles, now_ms: Callable[[], int]) -> None:
        self._files, self._now_ms = files, now_ms
        self._lock = threading.Lock()
        self._seen = _signature(files)
        self._leaf, self.context = load(files)

    def tell(self) -> None:
        """Log until when the certificate is valid, and what is unwise about the files."""
        if others_can_read(self._files.key):
            _log.warning("tls.key_is_readable", file=self._files.key, remedy="chmod o-r it, and renew the key")
        ends = self._leaf.not_valid_after_utc
        left_ms = ends.timestamp() * 1000 - self._now_ms()
        tell = _log.info if left_ms > SOON_MS else _log.warning
        tell("tls.certificate", file=self._files.cert, valid_until=ends.isoformat(), expired=left_ms <= 0)

    def renew(self, *, changed_only: bool = True) -> None:
        """Take what the files hold now, if it will do. Reads files: not for the event loop's thread."""
        with self._lock:
            signature = _signature(self._files)
            if changed_only and signature == self._seen:
                return
            self._seen = signature
            try:
                self._leaf, self.context = load(self._files)
            except ConfigError as error:
                for problem in error.problems:
                    _log.error("tls.not_renewed", setting=problem.field, reason=problem.message)
            else:
                self.tell()


def load(files: TlsFiles) -> tuple[x509.Certificate, ssl.SSLContext]:
    """The server's certificate, and the context made of all of it. Raises `ConfigError` with every problem."""
    problems: list[FieldProblem] = []
    leaf = _certificate(files, problems)
    key = _key(files, problems)
    if leaf is not None and key is not None and _spki(leaf.public_key()) != _spki(key.public_key()):
        message = (
            f"{files.key} is not the key of the certificate in {files.cert}; name the two that belong together"
        )
        problems.append(FieldProblem("tls_key", message))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if leaf is not None and key is not None and not problems:
        try:
            context.load_cert_chain(files.cert, files.key, files.key_password or _no_password)
        except (ssl.SSLError, OSError) as error:
            problems.append(FieldProblem("tls_cert", f"{files.cert} can't be used: {_reason(error)}"))
    if files.client_ca:
        _trust(context, files.client_ca, problems)
    if problems or leaf is None:
        raise ConfigError(problems)
    return leaf, context


def _certificate(files: TlsFiles, problems: list[FieldProblem]) -> x509.Certificate | None:
    data = _read("tls_cert", files.cert, problems)
    if data is None:
        return None
    try:
        return x509.load_pem_x509_certificates(data)[0]
    except ValueError:
        problems.append(
            FieldProblem("tls_cert", f"{files.cert} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
        )
    return None


def _key(files: TlsFiles, problems: list[FieldProblem]) -> PrivateKeyTypes | None:
    data = _read("tls_key", files.key, problems)
    if data is None:
        return None
    password = files.key_password.encode() or None
    try:
        return load_pem_private_key(data, password)
    except TypeError:  # one is given and not needed, or the other way round
        if password is None:
            problems.append(FieldProblem("tls_key_password", f"is missing, and {files.key} is encrypted"))
        else:
            problems.append(
                FieldProblem("tls_key_password", f"is given, but {files.key} is not encrypted; leave it out")
            )
    except ValueError:
        if password is None:
            problems.append(FieldProblem("tls_key", f"{files.key} holds no private key in PEM"))
        else:
            problems.append(FieldProblem("tls_key_password", f"does not open {files.key}"))
    return None


def _trust(context: ssl.SSLContext, client_ca: str, problems: list[FieldProblem]) -> None:
    if _read("tls_client_ca", client_ca, problems) is None:
        return
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cafile=client_ca)
    except ssl.SSLError:
        problems.append(FieldProblem("tls_client_ca", f"{client_ca} holds no certificate in PEM"))


def _read(setting: str, path: str, problems: list[FieldProblem]) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        problems.append(FieldProblem(setting, f"{path} can't be read: {error.strerror or error}; {_READABLE}"))
    return None


_READABLE: Final = "name a PEM file that the user of the server can read"


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _no_password() -> str:
    return ""  # without this, OpenSSL would ask on the terminal


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)


def others_can_read(path: str) -> bool:
    """Whether every user of this machine can."""
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _signature(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """Changes whenever one of the files was replaced or written to."""
    return tuple(_stamp(path) for path in (files.cert, files.key, files.client_ca) if path)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
