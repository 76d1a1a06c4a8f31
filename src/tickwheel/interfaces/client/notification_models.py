"""What the API answers about rules of notification, as typed values."""

from datetime import datetime

import msgspec


class WebhookTo(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages are posted."""

    endpoint: str
    signing_secret: str | None


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    webhook: WebhookTo | None = None
    email: tuple[str, ...] | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A rule. `tenant_id` None: of the installation."""

    name: str
    tenant_id: str | None
    events: tuple[str, ...]
    to: Destination
    job_name_prefix: str | None
    tag: str | None
    failures: int
    quiet_seconds: int
    version: int
    updated_at: datetime
    warnings: tuple[str, ...] = ()


class NotificationList(msgspec.Struct, frozen=True, kw_only=True):
    """The rules, by name."""

    notifications: tuple[Notification, ...]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a trial message. `error` None: it arrived."""

    name: str
    sent_by: str
    delivered: bool
    error: str | None
    warnings: tuple[str, ...] = ()
