"""The API with everything that a node gives it, for tests that walk all operations.

An operation that answers `not_ready` here wants something that this world does not hand in yet: add it to `open`.
"""

import dataclasses
from urllib.parse import urlsplit

from tickwheel.domain.access import Role
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.interfaces.http.app import build_app
from tickwheel.ports.executor import Work
from tickwheel.ports.vault import NO_VAULT
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.testing.seeded_randomness import SeededRandomness

from ...services.world import REFUSED
from .asgi_client import AsgiClient
from .hiring_world import HiringWorld

STATIC = "static-token-0123456789"


class WholeWorld(HiringWorld):
    """`client` may do everything, for all tenants. A webhook to `/never` fails for good, to `/slow` it goes on."""

    async def open(self, *tokens: str) -> "WholeWorld":
        await super().open(STATIC, *tokens)
        self.behave = _behave
        signing = SigningSecrets(self.store, NO_VAULT, self.clock, SeededRandomness(11))
        self.deps.jobs.seal_by(Sealing(NO_VAULT, signing.knows))
        self.deps = dataclasses.replace(self.deps, signing_secrets=signing)
        self.app = build_app(self.deps)
        self.client = AsgiClient(self.app, STATIC)
        return self

    async def member(self, tenant_id: str, role: Role = Role.ADMIN) -> AsgiClient:
        """Somebody with a token of that tenant."""
        reply = await self.client.post("/v1/tokens", {"role": role.value, "tenant_id": tenant_id})
        assert reply.status == 201, reply.body
        return AsgiClient(self.app, reply.json["token"])


def _behave(work: Work) -> Outcome | None:
    path = urlsplit(work.target.endpoint).path
    if path == "/never":
        return REFUSED
    return None if path == "/slow" else OK
