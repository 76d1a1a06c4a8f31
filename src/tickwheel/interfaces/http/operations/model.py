"""The shape of an endpoint's description."""

from typing import Any, Final, Literal

import msgspec

from tickwheel.domain.access import Scope
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.limits import LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, TENANT_CHARS

Json = Any
"""A value that JSON can hold."""


class Param(msgspec.Struct, frozen=True):
    """A parameter in the path, the query or a header."""

    name: str
    where: Literal["path", "query", "header"]
    description: str
    schema: dict[str, Json]
    example: Json = None
    required: bool = False


class Body(msgspec.Struct, frozen=True):
    """What a request carries; `schema` is a component's name."""

    schema: str
    example: Json
    second_example: Json = None
    required: bool = True
    description: str = ""


class Reply(msgspec.Struct, frozen=True):
    """One successful answer. `schema` is a component's name, None when there is no JSON body."""

    status: int
    description: str
    schema: str | None = None
    example: Json = None
    headers: tuple[str, ...] = ()  # keys of `HEADERS`
    media_type: str = "application/json"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `problems` are the error codes beside those that every operation has."""

    method: str
    path: str
    name: str  # operationId; also the anchor in the reference
    tag: str
    summary: str
    description: str = ""
    params: tuple[Param, ...] = ()
    body: Body | None = None
    replies: tuple[Reply, ...]
    problems: tuple[str, ...] = ()
    public: bool = False  # needs no token
    scope: Scope | None = None  # what a token needs for it; None: any token will do
    for_installation: bool = False  # needs a token for all tenants
    in_document: bool = True  # pages for people are no part of the machine's document


HEADERS: Final[dict[str, tuple[str, dict[str, Json]]]] = {
    "ETag": (
        "The version of the definition, quoted. Send it as `If-Match` to change only what you have read.",
        {"type": "string"},
    ),
    "Location": ("Where the new job is.", {"type": "string"}),
    "Idempotent-Replayed": (
        "`true` when an earlier request with the same idempotency key made this job.",
        {"type": "string", "enum": ["true"]},
    ),
    "Retry-After": ("Seconds to wait before the request is worth repeating.", {"type": "integer"}),
    "Allow": ("The methods that the path has.", {"type": "string"}),
}
"""Answer headers: meaning and schema."""

TENANT: Final = Param(
    "tenant_id",
    "query",
    "The tenant that owns it; another tenant's things are not found.",
    {"type": "string", "minLength": 1, "maxLength": TENANT_CHARS, "default": DEFAULT_TENANT},
    "default",
)
JOB_ID: Final = Param(
    "job_id",
    "path",
    "The id that creation answered.",
    {"type": "string", "minLength": 1},
    "job_01KB87RMR0003MZHB1C9HP8SB6",
    required=True,
)
RUN_ID: Final = Param(
    "run_id",
    "path",
    "The id of the run.",
    {"type": "string", "minLength": 1},
    "run_00SNM3WAC0001TFRNGP4RV4CNK00001KB881SQ0",
    required=True,
)
LIMIT: Final = Param(
    "limit",
    "query",
    "How many items a page holds at most.",
    {"type": "integer", "minimum": 1, "maximum": LIST_LIMIT_MAX, "default": LIST_LIMIT_DEFAULT},
)
CURSOR: Final = Param(
    "cursor",
    "query",
    "`next_cursor` of the page before. A cursor belongs to its list and filters; walking it neither repeats nor "
    "skips an item, whatever is inserted meanwhile.",
    {"type": "string", "minLength": 1, "maxLength": 1024},
)
KEY_HEADER: Final = Param(
    "Idempotency-Key",
    "header",
    "The same key with the same request gives the same job, whoever sends it again and when. With another "
    "request: 422, and nothing is written. May be given as the field `idempotency_key` instead; both and "
    "different: 400.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
IF_MATCH: Final = Param(
    "If-Match",
    "header",
    "Change only if the stored version is this one; otherwise 412.",
    {"type": "string"},
    '"1"',
)
