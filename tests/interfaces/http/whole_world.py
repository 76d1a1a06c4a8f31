"""The API with everything that a node gives it, for tests that walk all operations.

An operation that answers `not_ready` here wants something that this world does not hand in yet: add it to `open`.
"""

import dataclasses
from urllib.parse import urlsplit

from tickwheel.domain.access import Role
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.slo import parse_objectives
from tickwheel.interfaces.http.app import build_app
from tickwheel.ports.events import Event
from tickwheel.ports.executor import Work
from tickwheel.ports.vault import NO_VAULT
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.punctuality import Punctuality
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.testing.seeded_randomness import SeededRandomness

from ...services.notifying.stage import FakeCourier
from ...services.world import REFUSED, Events
from .asgi_client import AsgiClient
from .hiring_world import HiringWorld

STATIC = "static-token-0123456789"
HOUR_MS = 3_600_000


class WholeWorld(HiringWorld):
    """`client` may do everything, for all tenants; workers keep what they have got for an hour.

    A webhook to `/never` fails for good, one to `/slow` goes on. `objectives` are those of lateness.
    """

    def __init__(self, *objectives: str) -> None:
        super().__init__(lease_ms=HOUR_MS)
        self.punctuality = Punctuality(parse_objectives(objectives), self.clock, "node")
        self.events = _Heard(self.punctuality)

    async def open(self, *tokens: str) -> "WholeWorld":
        await super().open(STATIC, *tokens)
        self.behave = _behave
        signing = SigningSecrets(self.store, NO_VAULT, self.clock, SeededRandomness(11))
        self.deps.jobs.seal_by(Sealing(NO_VAULT, signing.knows))
        self.courier = FakeCourier(self.clock.now_ms)
        self.deps = dataclasses.replace(
            self.deps,
            signing_secrets=signing,
            punctuality=self.punctuality,
            notifications=NotificationRules(self.store, self.courier, self.clock),
        )
        self.app = build_app(self.deps)
        self.client = AsgiClient(self.app, STATIC)
        return self

    async def member(self, tenant_id: str | None, role: Role = Role.ADMIN) -> AsgiClient:
        """Somebody with a token of that tenant; None: of all of them."""
        whose = {"all_tenants": True} if tenant_id is None else {"tenant_id": tenant_id}
        reply = await self.client.post("/v1/tokens", {"role": role.value, **whose})
        assert reply.status == 201, reply.body
        return AsgiClient(self.app, reply.json["token"])


class _Heard(Events):
    """Tells the objectives of what happens."""

    def __init__(self, punctuality: Punctuality) -> None:
        super().__init__()
        self._punctuality = punctuality

    def emit(self, event: Event) -> None:
        super().emit(event)
        self._punctuality.emit(event)


def _behave(work: Work) -> Outcome | None:
    path = urlsplit(work.target.endpoint).path
    if path == "/never":
        return REFUSED
    return None if path == "/slow" else OK
