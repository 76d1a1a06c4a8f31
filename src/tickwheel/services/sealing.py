"""What is done to the secrets of a target before the store sees it.

A request brings header values in the clear, or the mark of a hidden one. Beside making its idempotency hash (so
the same request is the same one, whatever key seals now), `settle` gives it the values that are stored: a marked
one stays as it is stored, a new one is sealed. One that is what the stored text opens to stays as it is stored.
So putting the same definition again changes nothing, also after the key was changed: it takes
`tickwheel secrets reseal` to seal stored values anew.

What is sealed already comes from a stored job (a triggered one): a request can bring no such value.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec.structs import replace

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import Spec, Target
from tickwheel.domain.requests.definition import with_stored_headers
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.sealed import HARMLESS_HEADERS, header_context, is_sealed, origin_of
from tickwheel.ports.vault import NO_VAULT, CannotOpen, Vault

Headers: TypeAlias = tuple[tuple[str, str], ...]

KnowsSecret: TypeAlias = Callable[[str, str], bool]
"""(tenant, name of a signing secret) -> whether there is one."""

CACHE_COUNT: Final = 256
"""Sets of headers whose sealed form is kept: jobs of a batch mostly have the same."""


class Sealing:
    """Stateless but for a cache; safe to use from any thread."""

    def __init__(
        self, vault: Vault = NO_VAULT, knows_signing_secret: KnowsSecret = lambda tenant_id, name: True
    ) -> None:
        self._vault, self._knows_signing_secret = vault, knows_signing_secret
        self._sealed = lru_cache(maxsize=CACHE_COUNT)(self._seal)

    def settle(self, request: JobRequest, stored: Spec | None = None) -> JobRequest:
        """`request` as it is to be stored, in place of `stored` if there is a job already.

        Raises `InvalidRequest` for a mark that stands for nothing and a signing secret that is unknown,
        `SecretStays` where a stored value would go to another server.
        """
        target = request.spec.target
        if target.signing_secret and (stored is None or target.signing_secret != stored.target.signing_secret):
            self._check_signing_secret(request.tenant_id, target.signing_secret)
        if not target.headers:
            return request
        spec = with_stored_headers(request.spec, stored)
        headers = self._settled(request.tenant_id, spec.target, None if stored is None else stored.target)
        if headers == target.headers:
            return request
        return replace(request, spec=replace(spec, target=replace(spec.target, headers=headers)))

    def in_the_clear(self, request: JobRequest) -> JobRequest:
        """`request` with its sealed values opened as far as possible, for comparing it with others."""
        target = request.spec.target
        if not any(is_sealed(value) for _, value in target.headers):
            return request
        headers = []
        for name, value in target.headers:
            try:
                headers.append((name, self._open(request.tenant_id, target.endpoint, name, value)))
            except CannotOpen:
                headers.append((name, value))
        return replace(request, spec=replace(request.spec, target=replace(target, headers=tuple(headers))))

    def _settled(self, tenant_id: str, target: Target, stored: Target | None) -> Headers:
        sealed = self._sealed(tenant_id, origin_of(target.endpoint), target.headers)
        if stored is None or not stored.headers or origin_of(stored.endpoint) != origin_of(target.endpoint):
            return sealed
        known = dict(stored.headers)
        return tuple(
            (name, known[name] if self._is_stored(known.get(name, ""), given, tenant_id, target, name) else value)
            for (name, given), (_, value) in zip(target.headers, sealed, strict=True)
        )

    def _is_stored(self, stored: str, given: str, tenant_id: str, target: Target, name: str) -> bool:
        if not is_sealed(stored) or is_sealed(given):
            return False
        try:
            return self._open(tenant_id, target.endpoint, name, stored) == given
        except CannotOpen:
            return False

    def _open(self, tenant_id: str, endpoint: str, name: str, value: str) -> str:
        return self._vault.open(value, header_context(tenant_id, endpoint, name))

    def _seal(self, tenant_id: str, origin: str, headers: Headers) -> Headers:
        return tuple((name, self._seal_one(tenant_id, origin, name, value)) for name, value in headers)

    def _seal_one(self, tenant_id: str, origin: str, name: str, value: str) -> str:
        if not value or is_sealed(value) or name.lower() in HARMLESS_HEADERS:
            return value
        return self._vault.seal(value, header_context(tenant_id, origin, name))

    def _check_signing_secret(self, tenant_id: str, name: str) -> None:
        if not self._knows_signing_secret(tenant_id, name):
            message = f"names the signing secret {name!r}, and the tenant has none of that name; create it first"
            raise InvalidRequest([FieldProblem("target.signing_secret", message, "unknown")])


def resealed(vault: Vault, tenant_id: str, target: Target) -> Target:
    """The target with all its secrets under the key that seals now. Raises `CannotOpen`."""
    headers: Sequence[tuple[str, str]] = [
        (name, _anew(vault, value, header_context(tenant_id, target.endpoint, name), name))
        for name, value in target.headers
    ]
    return target if tuple(headers) == target.headers else replace(target, headers=tuple(headers))


def _anew(vault: Vault, value: str, context: str, name: str) -> str:
    if not value or (not is_sealed(value) and name.lower() in HARMLESS_HEADERS):
        return value
    return vault.seal(vault.open(value, context), context)
