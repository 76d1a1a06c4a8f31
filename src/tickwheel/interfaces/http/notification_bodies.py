"""What goes over the wire about rules of notification."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tickwheel.domain.limits import ENDPOINT_CHARS, NAME_CHARS, SECRET_NAME_CHARS, TAG_CHARS
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.rule import (
    ADDRESS_CHARS,
    ADDRESSES_MAX,
    FAILURES_DEFAULT,
    FAILURES_MAX,
    QUIET_SECONDS_DEFAULT,
    QUIET_SECONDS_MAX,
)

_Address = Annotated[str, Meta(min_length=3, max_length=ADDRESS_CHARS)]


class WebhookTo(msgspec.Struct, forbid_unknown_fields=True):
    """Where messages are posted, as Standard Webhooks. `signing_secret` null: the tenant's `default`, if any."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=ENDPOINT_CHARS)]
    signing_secret: Annotated[str, Meta(min_length=1, max_length=SECRET_NAME_CHARS)] | None = None


class DestinationBody(msgspec.Struct, forbid_unknown_fields=True):
    """One of the two."""

    webhook: WebhookTo | None = None
    email: Annotated[list[_Address], Meta(min_length=1, max_length=ADDRESSES_MAX)] | None = None


class NotificationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The whole rule: what is left out has its default again.

    A job has to begin with the prefix and carry the tag, where they are given. `failures` runs in a row out of
    attempts make a recurring job failing. Of one job there is at most one message of a kind in `quiet_seconds`.
    """

    events: Annotated[list[Kind], Meta(min_length=1)]
    to: DestinationBody
    job_name_prefix: Annotated[str, Meta(max_length=NAME_CHARS)] | None = None
    tag: Annotated[str, Meta(max_length=TAG_CHARS)] | None = None
    failures: Annotated[int, Meta(ge=1, le=FAILURES_MAX)] = FAILURES_DEFAULT
    quiet_seconds: Annotated[int, Meta(ge=0, le=QUIET_SECONDS_MAX)] = QUIET_SECONDS_DEFAULT


class NotificationBody(msgspec.Struct):
    """A rule of notification. `tenant_id` null: of the installation, about all tenants.

    `warnings` say what weakens it as things are: that nothing is there to sign its messages with.
    """

    name: str
    tenant_id: str | None
    events: list[Kind]
    to: DestinationBody
    job_name_prefix: str | None
    tag: str | None
    failures: int
    quiet_seconds: int
    version: int
    updated_at: str
    warnings: list[str]


class NotificationList(msgspec.Struct):
    """The rules of a tenant or of the installation, by name."""

    notifications: list[NotificationBody]


class TriedBody(msgspec.Struct):
    """What became of a trial message. `error` null: it arrived."""

    name: str
    sent_by: Literal["webhook", "email"]
    delivered: bool
    error: str | None
    warnings: list[str]


NOTIFICATION_TYPES: Final[tuple[Any, ...]] = (
    NotificationRequest,
    NotificationBody,
    NotificationList,
    TriedBody,
)
"""What the OpenAPI document describes from here."""
