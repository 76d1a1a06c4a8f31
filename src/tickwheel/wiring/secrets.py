"""What a process has of secrets: the vault, and the signing secrets of tenants, kept fresh."""

import asyncio

import structlog

from tickwheel.adapters.system import SystemRandomness
from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config import Settings
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.registry import Registry
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.services.supervision import supervise
from tickwheel.wiring.executors import signing_keys_of
from tickwheel.wiring.vault import UNSEALED, open_vault


class Secrets:
    """`start` keeps signing secrets fresh until `stop`."""

    def __init__(self, vault: KeyVault, signing: SigningSecrets, clock: Clock, events: EventSink) -> None:
        self.vault, self.signing = vault, signing
        self.sealing = Sealing(vault, signing.knows)
        self._clock, self._events = clock, events
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """On the running event loop. Again: nothing."""
        if self._loop is None:
            running = supervise("signing secrets", self.signing.run, self._clock, self._events)
            self._loop = asyncio.create_task(running, name="tickwheel-signing-secrets")

    async def stop(self) -> None:
        """Again: nothing."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


async def open_secrets(settings: Settings, registry: Registry, clock: Clock, events: EventSink) -> Secrets:
    """The vault opened and the signing secrets read once. Raises `ConfigError` and `StoreUnavailable`."""
    installation_keys = signing_keys_of(settings.webhook_secret)
    vault = await asyncio.to_thread(open_vault, settings)
    if not vault.seals:
        structlog.get_logger().warning("store.unsafe", warning=UNSEALED)
    signing = SigningSecrets(registry, vault, clock, SystemRandomness(), installation_keys)
    await signing.refresh()
    return Secrets(vault, signing, clock, events)
