"""Rules of notification as the API shows them."""

from collections.abc import Sequence

from tickwheel.domain.notifications.rule import NotificationRule
from tickwheel.interfaces.http.notification_bodies import (
    DestinationBody,
    NotificationBody,
    TriedBody,
    WebhookTo,
)
from tickwheel.interfaces.http.wire import iso_text
from tickwheel.services.notifying.rules import RuleView, Tried


def rule_body(view: RuleView, warnings: Sequence[str]) -> NotificationBody:
    """One rule."""
    rule = view.rule
    return NotificationBody(
        name=view.name,
        tenant_id=view.tenant_id or None,
        events=list(rule.events),
        to=_destination(rule),
        job_name_prefix=rule.job_name_prefix or None,
        tag=rule.tag or None,
        failures=rule.failures,
        quiet_seconds=rule.quiet_seconds,
        version=view.version,
        updated_at=iso_text(view.updated_ms),
        warnings=list(warnings),
    )


def tried_body(tried: Tried, warnings: Sequence[str]) -> TriedBody:
    """What became of a trial message."""
    return TriedBody(
        name=tried.view.name,
        sent_by="email" if tried.view.rule.webhook is None else "webhook",
        delivered=tried.error is None,
        error=tried.error,
        warnings=list(warnings),
    )


def _destination(rule: NotificationRule) -> DestinationBody:
    if rule.webhook is None:
        return DestinationBody(email=list(rule.email))
    return DestinationBody(WebhookTo(rule.webhook.endpoint, rule.webhook.signing_secret or None))
