"""Certificates for tests: an authority, and what it signs."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SERIALS = count(1)
_DAY = timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key, 99).add_extension(constraints, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(next(_SERIALS))
            .not_valid_before(now - 100 * _DAY)
            .not_valid_after(now + days * _DAY)
        )

    def issue(
        self, stem: str = "server", *, password: str = "", days: int = 2, for_client: bool = False
    ) -> tuple[Path, Path, int]:
        """The files of a certificate for localhost and of its key, and its serial number; written over."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if for_client else ExtendedKeyUsageOID.SERVER_AUTH
        names = [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(f"127.0.0.{n}")) for n in (1, 2))]
        certificate = (
            self._builder(_name(stem), key, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        sealed = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        cert_file, key_file = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        cert_file.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
        key_file.chmod(0o600)
        return cert_file, key_file, certificate.serial_number

    def client_context(self, cert_file: Path | None = None, key_file: Path | None = None) -> ssl.SSLContext:
        """Of a client that trusts this authority, and shows that certificate."""
        context = ssl.create_default_context(cafile=self.file)
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
        return context


def serial_of(writer: object) -> int:
    """Of the certificate that the server has shown on this connection."""
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)  # type: ignore[attr-defined]
    return x509.load_der_x509_certificate(found).serial_number
