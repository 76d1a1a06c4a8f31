"""Tickwheel: schedule jobs, and run them on time.

Names are loaded when they are used: importing this package loads no database driver and no network library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tickwheel.adapters.handlers.context import HandlerContext, Heartbeat
    from tickwheel.adapters.handlers.endings import Cancel, Fail, Retry, Snooze
    from tickwheel.adapters.handlers.registry import Handlers, default_handlers
    from tickwheel.domain.errors import (
        BadCursor,
        Conflict,
        EgressRefused,
        FieldProblem,
        IdempotencyConflict,
        InvalidRequest,
        KeyInFlight,
        NotFound,
        OutcomeUnknown,
        Overloaded,
        QuotaExceeded,
        SecretStays,
        StoreUnavailable,
        TenantDisabled,
        TickwheelError,
        UnsupportedFilter,
        VersionMismatch,
    )
    from tickwheel.interfaces.client.asynchronous import AsyncClient
    from tickwheel.interfaces.client.blocking import Client
    from tickwheel.interfaces.client.errors import (
        RequestRefused,
        RequestTimedOut,
        ServerUnreachable,
        Unauthorized,
        UnexpectedAnswer,
        WaitTimedOut,
    )
    from tickwheel.interfaces.client.explanation_models import Explanation
    from tickwheel.interfaces.client.job_fields import EditFields, JobFields
    from tickwheel.interfaces.client.models import (
        Attempt,
        BatchResult,
        CreatedJob,
        DeadLetter,
        DeadLetterPage,
        Job,
        JobPage,
        Preview,
        Redriven,
        RefusedJob,
        RefusedRun,
        Run,
        RunPage,
        TriggeredRun,
    )
    from tickwheel.interfaces.client.slo_models import Objective, Slo
    from tickwheel.interfaces.worker.worker import Worker

    handler = default_handlers.handler

_REGISTRY = "tickwheel.adapters.handlers.registry"
_CLIENT = "tickwheel.interfaces.client"
_PLACES = {
    "tickwheel.adapters.handlers.context": ("HandlerContext", "Heartbeat"),
    "tickwheel.adapters.handlers.endings": ("Cancel", "Fail", "Retry", "Snooze"),
    _REGISTRY: ("Handlers",),
    "tickwheel.domain.errors": (
        "BadCursor",
        "Conflict",
        "EgressRefused",
        "FieldProblem",
        "IdempotencyConflict",
        "InvalidRequest",
        "KeyInFlight",
        "NotFound",
        "OutcomeUnknown",
        "Overloaded",
        "QuotaExceeded",
        "SecretStays",
        "StoreUnavailable",
        "TenantDisabled",
        "TickwheelError",
        "UnsupportedFilter",
        "VersionMismatch",
    ),
    f"{_CLIENT}.asynchronous": ("AsyncClient",),
    f"{_CLIENT}.blocking": ("Client",),
    f"{_CLIENT}.errors": (
        "RequestRefused",
        "RequestTimedOut",
        "ServerUnreachable",
        "Unauthorized",
        "UnexpectedAnswer",
        "WaitTimedOut",
    ),
    f"{_CLIENT}.job_fields": ("EditFields", "JobFields"),
    f"{_CLIENT}.models": (
        "Attempt",
        "BatchResult",
        "CreatedJob",
        "DeadLetter",
        "DeadLetterPage",
        "Job",
        "JobPage",
        "Preview",
        "Redriven",
        "RefusedJob",
        "RefusedRun",
        "Run",
        "RunPage",
        "TriggeredRun",
    ),
    f"{_CLIENT}.explanation_models": ("Explanation",),
    f"{_CLIENT}.slo_models": ("Objective", "Slo"),
    "tickwheel.interfaces.worker.worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "AsyncClient",
    "Attempt",
    "BadCursor",
    "BatchResult",
    "Cancel",
    "Client",
    "Conflict",
    "CreatedJob",
    "DeadLetter",
    "DeadLetterPage",
    "EditFields",
    "EgressRefused",
    "Explanation",
    "Fail",
    "FieldProblem",
    "HandlerContext",
    "Handlers",
    "Heartbeat",
    "IdempotencyConflict",
    "InvalidRequest",
    "Job",
    "JobFields",
    "JobPage",
    "KeyInFlight",
    "NotFound",
    "Objective",
    "OutcomeUnknown",
    "Overloaded",
    "Preview",
    "QuotaExceeded",
    "Redriven",
    "RefusedJob",
    "RefusedRun",
    "RequestRefused",
    "RequestTimedOut",
    "Retry",
    "Run",
    "RunPage",
    "SecretStays",
    "ServerUnreachable",
    "Slo",
    "Snooze",
    "StoreUnavailable",
    "TenantDisabled",
    "TickwheelError",
    "TriggeredRun",
    "Unauthorized",
    "UnexpectedAnswer",
    "UnsupportedFilter",
    "VersionMismatch",
    "WaitTimedOut",
    "Worker",
    "handler",
]


def __getattr__(name: str) -> Any:
    if name == "handler":
        value = import_module(_REGISTRY).default_handlers.handler
    elif name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
