"""Requests about rules of notification, as values. `installation`: its rules, which see all tenants."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from tickwheel.interfaces.client import notification_models as models
from tickwheel.interfaces.client.calls import Call

_rule: Final = msgspec.json.Decoder(models.Notification).decode
_rules: Final = msgspec.json.Decoder(models.NotificationList).decode
_tried: Final = msgspec.json.Decoder(models.Tried).decode


def list_notifications(tenant_id: str | None, *, installation: bool = False) -> Call[models.NotificationList]:
    """GET /v1/notifications."""
    return Call(method="GET", path="/v1/notifications" + _query(tenant_id, installation), read=_rules)


def get_notification(name: str, tenant_id: str | None, *, installation: bool = False) -> Call[models.Notification]:
    """GET /v1/notifications/{name}."""
    return Call(method="GET", path=_path(name) + _query(tenant_id, installation), read=_rule)


def put_notification(
    name: str, rule: Mapping[str, Any], tenant_id: str | None, *, installation: bool = False
) -> Call[models.Notification]:
    """PUT /v1/notifications/{name}: the whole rule."""
    path = _path(name) + _query(tenant_id, installation)
    return Call(method="PUT", path=path, body=msgspec.json.encode(rule), read=_rule)


def delete_notification(name: str, tenant_id: str | None, *, installation: bool = False) -> Call[None]:
    """DELETE /v1/notifications/{name}."""
    path = _path(name) + _query(tenant_id, installation)
    return Call(method="DELETE", path=path, gone_is_done=True, read=_nothing)


def try_notification(name: str, tenant_id: str | None, *, installation: bool = False) -> Call[models.Tried]:
    """POST /v1/notifications/{name}/test. Sent again it would send another message."""
    path = f"{_path(name)}/test{_query(tenant_id, installation)}"
    return Call(method="POST", path=path, repeatable=False, read=_tried)


def _path(name: str) -> str:
    return f"/v1/notifications/{quote(name, safe='')}"


def _query(tenant_id: str | None, installation: bool) -> str:
    given = {} if tenant_id is None else {"tenant_id": tenant_id}
    if installation:
        given["installation"] = "true"
    return f"?{urlencode(given)}" if given else ""


def _nothing(body: bytes) -> None:
    """Of an answer without a body."""
