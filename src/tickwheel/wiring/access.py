"""Who may do what on this node, from the settings: API keys, tokens of the settings and of an issuer.

And how long it is remembered who did what.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.config import Settings
from tickwheel.domain.access import Role
from tickwheel.domain.errors import ConfigError, FieldProblem, StoreUnavailable
from tickwheel.domain.ids import DAY_MS
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.registry import Registry
from tickwheel.ports.tokens import TokenVerifier
from tickwheel.services.api_keys import ApiKeys
from tickwheel.services.audit_log_retention import AuditLogRetention
from tickwheel.services.authentication import Authentication
from tickwheel.services.supervision import supervise
from tickwheel.wiring.stores import open_settings_store


class Access:
    """`open` it before the API is served; `start` keeps keys fresh, and the audit log short, until `stop`."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        clock: Clock,
        events: EventSink,
        is_leader: Callable[[], bool],
    ) -> None:
        self._clock, self._events = clock, events
        self.api_keys = ApiKeys(registry, clock, SystemRandomness())
        verifier = _verifier(settings, clock) if settings.accepts_jwt else None
        self.authentication = Authentication(clock, tokens=settings.token, keys=self.api_keys, verifier=verifier)
        self._audit_log = AuditLogRetention(
            registry=registry, clock=clock, keep_ms=settings.audit_log_days * DAY_MS, is_leader=is_leader
        )
        self._loops: list[asyncio.Task[None]] = []

    async def open(self, *, ask_for_tokens: bool) -> None:
        """Read the keys. A token is asked for as soon as any is set up, unless `ask_for_tokens` is false."""
        await self.api_keys.refresh()
        self.authentication.ask(when_set_up=ask_for_tokens)

    def start(self) -> None:
        """Begin, on the running event loop."""
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "api keys": self.api_keys.run,
            "api key uses": self.api_keys.run_uses,
            "audit log retention": self._audit_log.run,
        }
        for name, loop in loops.items():
            running = supervise(name, loop, self._clock, self._events)
            self._loops.append(asyncio.create_task(running, name=f"tickwheel-{name}"))

    async def stop(self) -> None:
        """Stop, and write down what was used last. Again: nothing."""
        loops, self._loops = self._loops, []
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        if loops:
            try:
                await self.api_keys.flush_uses()
            except StoreUnavailable:
                return


@asynccontextmanager
async def open_api_keys(settings: Settings) -> AsyncIterator[ApiKeys]:
    """The keys of a store, for a command. Raises `ConfigError` and `StoreUnavailable`."""
    clock = SystemClock()
    store = await open_settings_store(settings, clock)
    try:
        yield ApiKeys(store, clock, SystemRandomness())
    finally:
        await store.aclose()


def _verifier(settings: Settings, clock: Clock) -> TokenVerifier:
    from tickwheel.adapters.jwt.key_sets import parse_key_set, read_key_set
    from tickwheel.adapters.jwt.settings import JwtSettings
    from tickwheel.adapters.jwt.verifier import JwtVerifier

    if settings.jwt_keys and "://" not in settings.jwt_keys:
        # A file is there at the start, or it is a mistake; an address may be away for a while.
        try:
            parse_key_set(read_key_set(settings.jwt_keys))
        except (OSError, ValueError) as error:
            message = f"{settings.jwt_keys} can't be used: {getattr(error, 'strerror', None) or error}"
            raise ConfigError([FieldProblem("jwt_keys", message)]) from error
    return JwtVerifier(
        JwtSettings(
            audience=settings.jwt_audience,
            issuer=settings.jwt_issuer,
            key_set=settings.jwt_keys,
            secret=settings.jwt_secret,
            leeway_s=settings.jwt_leeway_seconds,
            tenant_claim=settings.jwt_tenant_claim,
            role_claim=settings.jwt_role_claim,
            all_tenants=settings.jwt_all_tenants,
            default_role=Role(settings.jwt_default_role) if settings.jwt_default_role else None,
        ),
        clock,
    )
