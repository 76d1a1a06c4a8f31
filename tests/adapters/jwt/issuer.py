"""An issuer of tokens: keys of each kind, and tokens signed with them, or made wrongly on purpose."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NOW_S = 1_764_000_000
AUDIENCE = "tickwheel"
ISSUER = "https://issuer.example"
SECRET = "a shared secret of more than thirty-two characters"

RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PRIVATE: dict[str, Any] = {"RS256": RSA, "ES256": EC, "EdDSA": ED, "HS256": SECRET}


def claims(**changes: Any) -> dict[str, Any]:
    """Of a good token; None takes one away."""
    all_claims = {
        "sub": "ann",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": NOW_S - 10,
        "exp": NOW_S + 600,
        "tenant_id": "acme",
        "role": "scheduler",
        **changes,
    }
    return {name: value for name, value in all_claims.items() if value is not None}


def token(
    algorithm: str = "RS256", *, key: Any = None, headers: dict[str, Any] | None = None, **changes: Any
) -> str:
    """A signed token."""
    named = {"kid": algorithm, **(headers or {})}
    return jwt.encode(claims(**changes), key or PRIVATE[algorithm], algorithm=algorithm, headers=named)


def forged(header: dict[str, Any], secret: bytes | None, **changes: Any) -> str:
    """A token put together by hand, signed with HMAC or not at all."""
    parts = ".".join(_part(json.dumps(part).encode()) for part in (header, claims(**changes)))
    signature = b"" if secret is None else hmac.digest(secret, parts.encode(), hashlib.sha256)
    return f"{parts}.{_part(signature)}"


def public_pem(algorithm: str) -> bytes:
    """What anybody can know of a key."""
    public = PRIVATE[algorithm].public_key()
    pem: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def public_der(algorithm: str) -> bytes:
    """The same in another form."""
    public = PRIVATE[algorithm].public_key()
    der: bytes = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return der


def jwk(algorithm: str, key: Any = None, **changes: Any) -> dict[str, Any]:
    """A public key as it stands in a key set."""
    kind: Any = {"RS256": jwt.algorithms.RSAAlgorithm, "ES256": jwt.algorithms.ECAlgorithm}.get(
        algorithm, jwt.algorithms.OKPAlgorithm
    )
    public: dict[str, Any] = kind.to_jwk((key or PRIVATE[algorithm]).public_key(), as_dict=True)
    return {**public, "kid": algorithm, "use": "sig", **changes}


def key_set(*entries: dict[str, Any]) -> bytes:
    """A JWKS; by default one key of each kind."""
    return json.dumps({"keys": list(entries) or [jwk(name) for name in ("RS256", "ES256", "EdDSA")]}).encode()


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
