"""What runs attempts: webhooks and Python handlers, from the settings."""

from collections.abc import Callable, Sequence

from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers, default_handlers
from tickwheel.adapters.webhook.address import AddressPolicy, parse_networks
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.adapters.webhook.signature import parse_secret
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.job import Target, TargetType
from tickwheel.ports.clock import Clock
from tickwheel.services.scheduler import BuildExecutor


def signing_keys_of(secrets_given: Sequence[str]) -> list[bytes]:
    try:
        return [parse_secret(text) for text in secrets_given]
    except ValueError as error:
        raise ConfigError([FieldProblem(field="webhook_secret", message=str(error))]) from None


def webhooks(settings: Settings, clock: Clock, signing_keys: Sequence[bytes]) -> BuildExecutor:
    policy = AddressPolicy(
        allow_loopback=settings.allow_loopback,
        allow_private=parse_networks(settings.allow_private),
    )
    webhook_settings = WebhookSettings(
        addresses=policy,
        signing_keys=signing_keys,
        host_limit_count=settings.webhook_host_limit,
        connection_limit_count=settings.webhook_slots,
    )
    return lambda report, progress: WebhookExecutor(report, clock, webhook_settings)


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
