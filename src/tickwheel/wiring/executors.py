"""What runs attempts: webhooks and Python handlers, from the settings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers, default_handlers
from tickwheel.adapters.webhook.address import AddressPolicy, parse_networks
from tickwheel.adapters.webhook.egress import Gates
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.settings import KeysFor, PolicyOf, WebhookSettings
from tickwheel.adapters.webhook.signature import parse_secret
from tickwheel.config import Role, Settings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.egress_proxy import read_proxies
from tickwheel.domain.errors import ConfigError, EgressRefused, FieldProblem
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.nat64 import read_prefixes
from tickwheel.domain.webhook_ports import read_ports
from tickwheel.ports.clock import Clock
from tickwheel.ports.vault import NO_VAULT, Vault
from tickwheel.services.scheduler import BuildExecutor

ALL_ADDRESSES: Final = ("0.0.0.0/0", "::/0")
ALL_PORTS: Final = ("1-65535",)


def no_policy(tenant_id: str) -> EgressPolicy | None:
    """The settings hold for all alike."""
    return None


def signing_keys_of(secrets_given: Sequence[str]) -> list[bytes]:
    try:
        return [parse_secret(text) for text in secrets_given]
    except ValueError as error:
        raise ConfigError([FieldProblem(field="webhook_secret", message=str(error))]) from None


def webhooks(
    settings: Settings,
    clock: Clock,
    signing_keys: Sequence[bytes] = (),
    policy_of: PolicyOf = no_policy,
    vault: Vault = NO_VAULT,
    keys_for: KeysFor | None = None,
) -> BuildExecutor:
    """With `keys_for` it decides about signatures, else all requests are signed with `signing_keys`."""
    given = replace(
        webhook_settings(settings, policy_of), signing_keys=signing_keys, vault=vault, keys_for=keys_for
    )
    return lambda report, progress: WebhookExecutor(report, clock, given)


def webhook_settings(settings: Settings, policy_of: PolicyOf) -> WebhookSettings:
    """What webhooks may call from here, and how many at a time; nothing of how they are signed."""
    return WebhookSettings(
        addresses=AddressPolicy(
            allow_loopback=settings.allow_loopback,
            allow_private=parse_networks(settings.allow_private),
            nat64_prefixes=read_prefixes(settings.nat64_prefix),
        ),
        ports=read_ports(settings.webhook_ports),
        proxies=read_proxies(settings.egress_proxy, resolves=settings.egress_proxy_resolves),
        policy_of=policy_of,
        host_limit_count=settings.webhook_host_limit,
        connection_limit_count=settings.webhook_slots,
    )


def target_guard(settings: Settings, policy_of: PolicyOf = no_policy) -> Callable[[str, Target], None]:
    """Raises `EgressRefused` for a webhook of a tenant that would be refused, whatever its name resolves to.

    A node that runs no webhooks leaves what its settings would refuse to those that do: theirs may be others.
    """
    return _guard(settings if settings.has(Role.WORKER) else _loosest(settings), policy_of)


def policy_guard(settings: Settings, policy_of: PolicyOf) -> Callable[[str, Target], None]:
    """The same for webhooks that leave from elsewhere: by the tenant's policy, and what nobody may call at all."""
    return _guard(_loosest(settings), policy_of)


def _guard(settings: Settings, policy_of: PolicyOf) -> Callable[[str, Target], None]:
    gates = Gates(webhook_settings(settings, policy_of))

    def refuse_target(tenant_id: str, target: Target) -> None:
        if target.type is TargetType.HTTP_WEBHOOK:
            endpoint = gates.of(tenant_id).endpoint(target.endpoint)
            if isinstance(endpoint, str):
                raise EgressRefused(endpoint)

    return refuse_target


def _loosest(settings: Settings) -> Settings:
    return replace(settings, allow_loopback=True, allow_private=ALL_ADDRESSES, webhook_ports=ALL_PORTS)


def handlers_of(settings: Settings, clock: Clock, handlers: Handlers) -> BuildExecutor:
    return lambda report, progress: HandlerExecutor(
        handlers=handlers, report=report, progress=progress, clock=clock, thread_limit=settings.handler_slots
    )


def serves(handlers: Handlers) -> Callable[[Target], bool]:
    return lambda target: target.type is not TargetType.HANDLER or target.name in handlers


def registered_handlers() -> Handlers:
    """Those that this program registered through `tickwheel.handler`."""
    return default_handlers


def handler_names(app: str) -> tuple[str, ...]:
    """The handlers that `--app` brings; raises `ConfigError` with the reason why there are none."""
    return load_handlers(app).names if app else ()
