"""Whom to trust: where this machine keeps the certificates of public authorities."""

from pathlib import Path
from ssl import get_default_verify_paths
from typing import Final

_CA_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def find_ca_file() -> str | None:
    """The machine's certificate bundle (`SSL_CERT_FILE` first); None leaves it to libcurl.

    The libcurl inside a binary wheel looks only where the machine that built it has its bundle.
    """
    candidates = (get_default_verify_paths().cafile, *_CA_FILES)
    return next((path for path in candidates if path and Path(path).is_file()), None)
