"""What a process has of secrets: the vault, and the signing secrets of tenants, kept fresh."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog

from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.registry import Act, Registry
from tickwheel.services.resealing import Progress, Resealed, Resealing
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.services.supervision import supervise
from tickwheel.wiring.executors import signing_keys_of
from tickwheel.wiring.stores import AuditedStore, open_settings_store, require_database
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


class _Opened(NamedTuple):
    store: AuditedStore
    vault: KeyVault
    signing: SigningSecrets


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[_Opened]:
    clock = SystemClock()
    if settings.store.startswith("memory:"):
        raise ConfigError([FieldProblem("store", "memory: can't be looked into from another process")])
    store = await open_settings_store(settings, clock)
    try:
        vault = await asyncio.to_thread(open_vault, settings)
        yield _Opened(store, vault, SigningSecrets(store, vault, clock, SystemRandomness()))
    finally:
        await store.aclose()


@asynccontextmanager
async def open_signing_secrets(settings: Settings, warn: Callable[[str], None]) -> AsyncIterator[SigningSecrets]:
    """Those of a store, for a command; `warn` is told what is unwise. Raises `ConfigError`, `StoreUnavailable`."""
    async with _opened(settings) as opened:
        if not opened.vault.seals:
            warn(UNSEALED)
        yield opened.signing


async def reseal_store(settings: Settings, act: Act, expect: Progress, progress: Progress) -> Resealed:
    """Seal all that is stored under the first key; `expect` is told first how many jobs there are about.

    Raises `ConfigError` and `StoreUnavailable`.
    """
    require_database(settings)
    async with _opened(settings) as (store, vault, signing):
        if not vault.seals:
            message = "is not set, so there is nothing to seal under; `tickwheel secrets keygen` makes one"
            raise ConfigError([FieldProblem("secrets_key", message)])
        expect((await store.counts()).jobs)
        return await Resealing(store, store, vault, signing, act).run(progress)
