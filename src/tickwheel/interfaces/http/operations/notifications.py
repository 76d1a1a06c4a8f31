"""Rules of notification."""

from typing import Any, Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import SECRET_NAME_CHARS
from tickwheel.interfaces.http.operations.model import IF_MATCH, TENANT, Body, Operation, Param, Reply

_TAG: Final = "Notifications"
_READ_PROBLEMS: Final = ("forbidden", "not_found", "invalid_request", "not_ready", "store_unavailable")
_CHANGE_PROBLEMS: Final = (*_READ_PROBLEMS, "outcome_unknown")
_NAME: Final = Param(
    "notification_name",
    "path",
    "The name of the rule.",
    {"type": "string", "minLength": 1, "maxLength": SECRET_NAME_CHARS},
    "ops",
    required=True,
)
_WIDE: Final = Param(
    "installation",
    "query",
    "`true`: the rules of the installation instead, which see all tenants. Needs a token for all tenants.",
    {"type": "string", "enum": ["true", "false"], "default": "false"},
)
_REQUEST: Final[dict[str, Any]] = {
    "events": ["run.dead_lettered", "job.failing"],
    "to": {"webhook": {"endpoint": "https://ops.example.com/tickwheel", "signing_secret": "billing"}},
    "tag": "money",
}
_MAIL_REQUEST: Final[dict[str, Any]] = {
    "events": ["schedule.exhausted"],
    "to": {"email": ["ops@example.com"]},
    "quiet_seconds": 3_600,
}
_RULE: Final[dict[str, Any]] = {
    "name": "ops",
    "tenant_id": "default",
    "events": ["run.dead_lettered", "job.failing"],
    "to": {
        "webhook": {"endpoint": "https://ops.example.com/tickwheel", "signing_secret": "billing"},
        "email": None,
    },
    "job_name_prefix": None,
    "tag": "money",
    "failures": 3,
    "quiet_seconds": 900,
    "version": 1,
    "updated_at": "2025-11-30T09:00:00.000Z",
    "warnings": [],
}

NOTIFICATION_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/notifications",
        name="list_notifications",
        scope=Scope.NOTIFICATIONS_WRITE,
        tag=_TAG,
        summary="List rules of notification",
        params=(TENANT, _WIDE),
        replies=(Reply(200, "The rules, by name.", "NotificationList", {"notifications": [_RULE]}),),
        problems=_READ_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/notifications/{notification_name}",
        name="get_notification",
        scope=Scope.NOTIFICATIONS_WRITE,
        tag=_TAG,
        summary="Show a rule of notification",
        params=(_NAME, TENANT, _WIDE),
        replies=(Reply(200, "The rule.", "NotificationBody", _RULE, headers=("ETag",)),),
        problems=_READ_PROBLEMS,
    ),
    Operation(
        method="PUT",
        path="/v1/notifications/{notification_name}",
        name="put_notification",
        scope=Scope.NOTIFICATIONS_WRITE,
        tag=_TAG,
        summary="Set a rule of notification",
        description="Who is told, by webhook or by e-mail, of which events: `run.dead_lettered`, `job.failing`, "
        "`job.recovered`, `schedule.exhausted`, `objective.burning`. It replaces the rule of that name, and hears "
        "of what happens from now on. The endpoint is held to the tenant's egress policy, as that of any webhook.",
        params=(_NAME, TENANT, _WIDE, IF_MATCH),
        body=Body("NotificationRequest", _REQUEST, _MAIL_REQUEST),
        replies=(Reply(200, "The rule as it is now.", "NotificationBody", _RULE, headers=("ETag",)),),
        problems=(
            *_CHANGE_PROBLEMS,
            "malformed_json",
            "incomplete_body",
            "body_too_large",
            "unsupported_media_type",
            "egress_refused",
            "version_mismatch",
        ),
    ),
    Operation(
        method="DELETE",
        path="/v1/notifications/{notification_name}",
        name="delete_notification",
        scope=Scope.NOTIFICATIONS_WRITE,
        tag=_TAG,
        summary="Delete a rule of notification",
        description="What it was still to say is not said any more.",
        params=(_NAME, TENANT, _WIDE),
        replies=(Reply(204, "It is deleted."),),
        problems=_CHANGE_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/notifications/{notification_name}/test",
        name="test_notification",
        scope=Scope.NOTIFICATIONS_WRITE,
        tag=_TAG,
        summary="Send a trial message",
        description="At once and one time, from the node that answers, which says what became of it.",
        params=(_NAME, TENANT, _WIDE),
        replies=(
            Reply(
                200,
                "What became of it.",
                "TriedBody",
                {"name": "ops", "sent_by": "webhook", "delivered": False, "error": "HTTP 500", "warnings": []},
            ),
        ),
        problems=_CHANGE_PROBLEMS,
    ),
)
