"""What the settings of JSON Web Tokens must look like."""

from typing import Final
from urllib.parse import urlsplit

from tickwheel.config.settings import LOOPBACK_HOSTS, Settings, Wrong, setting_default
from tickwheel.domain.access import Role

SHORTEST_SECRET_CHARS: Final = 32
"""HS256 signs with 256 bits: a shorter secret can be guessed from a single token."""
_MEANINGLESS_ALONE: Final = (
    "jwt_audience",
    "jwt_issuer",
    "jwt_leeway_seconds",
    "jwt_tenant_claim",
    "jwt_all_tenants",
    "jwt_role_claim",
    "jwt_default_role",
)


def check_jwt(settings: Settings, wrong: Wrong) -> None:
    """Tell what is wrong."""
    if not settings.accepts_jwt:
        for name in _MEANINGLESS_ALONE:
            if getattr(settings, name) != setting_default(name):
                wrong(name, "means nothing without jwt_keys or jwt_secret; add one of them, or leave it out")
        return
    if not settings.jwt_audience:
        wrong("jwt_audience", "is missing: without it a token for another service would open this one")
    if settings.jwt_secret and len(settings.jwt_secret) < SHORTEST_SECRET_CHARS:
        wrong("jwt_secret", f"needs at least {SHORTEST_SECRET_CHARS} characters")
    if "://" in settings.jwt_keys and not _is_trustworthy(settings.jwt_keys):
        wrong("jwt_keys", "must be a file or an https:// address; http:// is for loopback only")
    roles = [role.value for role in Role]
    if settings.jwt_default_role and settings.jwt_default_role not in roles:
        wrong("jwt_default_role", f"must be one of {', '.join(roles)}")
    for name in ("jwt_tenant_claim", "jwt_role_claim"):
        if not getattr(settings, name).strip():
            wrong(name, "must name a claim")


def _is_trustworthy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK_HOSTS))
