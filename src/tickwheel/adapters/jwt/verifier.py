"""Judges JSON Web Tokens.

Which algorithm a token may be signed with is decided by the keys that are set up, never by the token: a shared
secret goes with HS256 only, a public key with the one algorithm of its type. So a token can't have a public key
taken for a shared secret, and `none` is no algorithm at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt

from tickwheel.adapters.jwt.key_sets import KeySet
from tickwheel.adapters.jwt.settings import JwtSettings
from tickwheel.domain.access import ROLE_SCOPES, Principal, Role, Scope
from tickwheel.domain.requests.text_rules import new_tenant_fault, shows_nothing
from tickwheel.ports.clock import Clock
from tickwheel.ports.tokens import TokenRefused, Verified

SHARED: Final = "HS256"
PUBLIC: Final = frozenset({"RS256", "ES256", "EdDSA"})
ALL_TENANTS: Final = "*"
REMEMBERED_MS: Final = 300_000
"""A token is looked at again after this, so that a key which the issuer took back counts no longer."""
_SUBJECT_CHARS: Final = 200
_KEYS_TRIED: Final = 10


class JwtVerifier:
    """Implements `ports.tokens.TokenVerifier`."""

    def __init__(self, settings: JwtSettings, clock: Clock, key_set: KeySet | None = None) -> None:
        self._settings = settings
        self._keys = key_set or (KeySet(settings.key_set, clock) if settings.key_set else None)

    async def verify(self, token: str, now_ms: int) -> Verified:
        """See the port."""
        header = _header(token)
        claims = self._checked(token, header["alg"], await self._candidates(header))
        self._check_times(claims, now_ms)
        until_ms = min((int(claims["exp"]) + self._settings.leeway_s) * 1000, now_ms + REMEMBERED_MS)
        return Verified(self._principal(claims), until_ms)

    async def _candidates(self, header: Mapping[str, Any]) -> Sequence[Any]:
        algorithm, key_id = header["alg"], header.get("kid")
        if algorithm == SHARED and self._settings.secret:
            return [self._settings.secret.encode()]
        if algorithm in PUBLIC and self._keys is not None:
            found = await self._keys.find(algorithm, key_id if isinstance(key_id, str) else None)
            return [one.key for one in found[:_KEYS_TRIED]]
        raise TokenRefused("The token is signed with an algorithm that is not accepted here.")

    def _checked(self, token: str, algorithm: str, keys: Sequence[Any]) -> Mapping[str, Any]:
        for key in keys:
            try:
                # Times are checked by `_check_times`: this library reads the machine's clock.
                claims: Mapping[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._settings.audience,
                    issuer=self._settings.issuer or None,
                    options={
                        "require": ["exp", "aud"],
                        "verify_exp": False,
                        "verify_nbf": False,
                        "verify_iat": False,
                    },
                )
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, RecursionError) as error:
                raise TokenRefused(_reason(error)) from None
            return claims
        raise TokenRefused("The token's signature fits no key that is known here.")

    def _check_times(self, claims: Mapping[str, Any], now_ms: int) -> None:
        leeway_ms = self._settings.leeway_s * 1000
        times = {name: claims.get(name) for name in ("exp", "nbf", "iat")}
        for value in times.values():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and (not is_number or not 0 <= value < 1 << 40):
                raise TokenRefused("The token has a time that is none.")
        if now_ms >= int(claims["exp"]) * 1000 + leeway_ms:
            raise TokenRefused("The token has expired.")
        if any(value is not None and now_ms < value * 1000 - leeway_ms for value in (times["nbf"], times["iat"])):
            raise TokenRefused("The token is not valid yet.")

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise TokenRefused("The token names no subject (claim sub).")
        fault = _subject_fault(subject)
        if fault is not None:
            raise TokenRefused(f"The token's subject (claim sub) {fault}.")
        return Principal(f"jwt:{subject}", self._scopes(claims), self._tenant(claims))

    def _tenant(self, claims: Mapping[str, Any]) -> str | None:
        name = self._settings.tenant_claim
        tenant = claim_at(claims, name)
        if not isinstance(tenant, str) or not tenant:
            raise TokenRefused(f"The token names no tenant (claim {name}).")
        if tenant == ALL_TENANTS and self._settings.all_tenants:
            return None
        if tenant == ALL_TENANTS:
            raise TokenRefused(
                f"The token is for all tenants (claim {name}), and this server takes none of those."
            )
        fault = new_tenant_fault(tenant)
        if fault is not None:
            raise TokenRefused(f"The token's tenant (claim {name}) {fault}.")
        return tenant

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        name = self._settings.role_claim
        given = claim_at(claims, name)
        names = given if isinstance(given, list) else [given]
        roles = {role for role in Role if role.value in names}
        if given is None and self._settings.default_role is not None:
            roles = {self._settings.default_role}
        if not roles:
            known = ", ".join(role.value for role in Role)
            raise TokenRefused(f"The token names no role (claim {name}; known are {known}).")
        return frozenset().union(*(ROLE_SCOPES[role] for role in roles))


def claim_at(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or at that path; None if there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _subject_fault(subject: str) -> str | None:
    """It goes into logs and the audit log, where it must be seen as it is."""
    if len(subject) > _SUBJECT_CHARS:
        return f"has {len(subject)} characters; at most {_SUBJECT_CHARS} are allowed"
    if shows_nothing(subject):
        return "shows nothing"
    for position, letter in enumerate(subject):
        if not letter.isprintable():
            return f"has an unprintable character (U+{ord(letter):04X}) at character {position + 1}"
    return None


def _header(token: str) -> Mapping[str, Any]:
    try:
        header: Mapping[str, Any] = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, RecursionError):
        raise TokenRefused("The token can't be read.") from None
    if not isinstance(header.get("alg"), str) or "crit" in header or "b64" in header:
        raise TokenRefused("The token has a header that is not understood here.")
    return header


def _reason(error: Exception) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"The token has no {error.claim}."
    if isinstance(error, jwt.InvalidAudienceError):
        return "The token is for another audience."
    if isinstance(error, jwt.InvalidIssuerError):
        return "The token is from another issuer."
    return "The token can't be read."
