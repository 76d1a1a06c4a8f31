"""What a node needs to send notifications: the rules, the couriers, and the loops of the node that leads."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from tickwheel.adapters.smtp.courier import SmtpCourier
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.webhook.courier import WebhookCourier
from tickwheel.adapters.webhook.settings import PolicyOf
from tickwheel.config import Settings
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.mail_server import read_mail_server
from tickwheel.domain.notifications.messages import Message
from tickwheel.domain.notifications.rule import NotificationRule
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.registry import NO_TENANT
from tickwheel.ports.vault import CannotSign
from tickwheel.services.notifying.burning import BurnWatch
from tickwheel.services.notifying.intake import Intake
from tickwheel.services.notifying.notifier import Notifier
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.punctuality import Punctuality
from tickwheel.services.supervision import supervise
from tickwheel.wiring.executors import target_guard, webhook_settings
from tickwheel.wiring.secrets import Secrets
from tickwheel.wiring.stores import AuditedStore

CONNECTIONS: Final = 32
PER_HOST: Final = 4


class Couriers:
    """Implements `ports.courier.Courier`: by webhook or by e-mail, as the rule says."""

    def __init__(self, settings: Settings, clock: Clock, policy_of: PolicyOf, secrets: Secrets) -> None:
        self._refuse_target = target_guard(settings, policy_of)
        self._knows_secret, self._keys_for = secrets.signing.knows, secrets.signing.keys_for
        self._domains = frozenset(settings.smtp_domains)
        self._webhooks = WebhookCourier(
            clock,
            replace(
                webhook_settings(settings, policy_of),
                vault=secrets.vault,
                keys_for=secrets.signing.keys_for,
                host_limit_count=PER_HOST,
                connection_limit_count=CONNECTIONS,
            ),
        )
        self._mail, self._closed = None, False
        if settings.smtp_url:
            self._mail = SmtpCourier(read_mail_server(settings.smtp_url), settings.smtp_from, clock)

    def check(self, tenant_id: str, rule: NotificationRule) -> None:
        """See the port."""
        if rule.webhook is not None:
            self._refuse_target(tenant_id, Target(TargetType.HTTP_WEBHOOK, rule.webhook.endpoint))
            secret = rule.webhook.signing_secret
            if secret and not self._knows_secret(tenant_id, secret):
                whose = "the tenant has" if tenant_id != NO_TENANT else "rules of the installation have"
                message = f"names the signing secret {secret!r}, and {whose} none of that name"
                raise InvalidRequest([FieldProblem("to.webhook.signing_secret", message, "unknown")])
            return
        if self._mail is None:
            raise InvalidRequest(
                [FieldProblem("to.email", "this server sends no e-mail; its operator may set smtp_url", "unknown")]
            )
        for address in rule.email:
            if not self._may_get_mail(address):
                allowed = ", ".join(sorted(self._domains))
                message = f"has {address!r}; this server sends to addresses of {allowed} only"
                raise InvalidRequest([FieldProblem("to.email", message)])

    def warnings(self, tenant_id: str, rule: NotificationRule) -> list[str]:
        """See the port."""
        if rule.webhook is None or rule.webhook.signing_secret:
            return []
        try:
            is_signed = bool(self._keys_for(tenant_id, ""))
        except CannotSign:
            return []  # nothing is sent then, and a try says why
        if is_signed:
            return []
        why = (
            "the tenant has no signing secret called default" if tenant_id else "the server has no webhook_secret"
        )
        return [f"messages are not signed: {why}"]

    async def bring(self, rule: NotificationRule, message: Message) -> str | None:
        """See the port."""
        if rule.webhook is not None:
            return await self._webhooks.bring(rule.webhook, message)
        if self._mail is None:
            return "this server sends no e-mail: smtp_url is not set"
        if not all(map(self._may_get_mail, rule.email)):
            return "an address is not of the domains that smtp_domains allows"
        return await self._mail.bring(rule.email, message)

    async def aclose(self) -> None:
        """See the port. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        await self._webhooks.aclose()
        if self._mail is not None:
            await self._mail.aclose()

    def _may_get_mail(self, address: str) -> bool:
        return not self._domains or address.rpartition("@")[2].lower() in self._domains


class Notifying:
    """`start` sends while this node leads, until `stop`."""

    def __init__(
        self,
        settings: Settings,
        store: AuditedStore,
        clock: Clock,
        events: EventSink,
        policy_of: PolicyOf,
        secrets: Secrets,
        is_leader: Callable[[], bool],
    ) -> None:
        self._store, self._clock, self._events, self._is_leader = store, clock, events, is_leader
        self._couriers = Couriers(settings, clock, policy_of, secrets)
        self.rules = NotificationRules(store, self._couriers, clock, settings.public_url)
        self._notifier = Notifier(
            store=store,
            rules=self.rules,
            intake=Intake(store, self.rules, clock),
            courier=self._couriers,
            clock=clock,
            events=events,
            is_leader=is_leader,
            public_url=settings.public_url,
        )
        self._burning: BurnWatch | None = None
        self._loops: list[asyncio.Task[None]] = []

    def watch(self, punctuality: Punctuality, metrics: Metrics) -> None:
        """Of a node that fires: note when its objectives burn."""
        self._burning = BurnWatch(punctuality, self._store, self._clock)
        metrics.show(
            "notifications_waiting",
            lambda: float(self._notifier.waiting_count) if self._is_leader() else {},
        )

    def start(self) -> None:
        """On the running event loop. Again: nothing."""
        if self._loops:
            return
        loops = {"notifications": self._notifier.run}
        if self._burning is not None:
            loops["burning objectives"] = self._burning.run
        for name, run in loops.items():
            running = partial(supervise, name, run, self._clock, self._events)()
            self._loops.append(asyncio.create_task(running, name=f"tickwheel-{name}"))

    async def stop(self) -> None:
        """Again: nothing."""
        loops, self._loops = self._loops, []
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._couriers.aclose()
