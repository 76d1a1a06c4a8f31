"""The OpenAPI 3.1 document, made from the operations, the answers' structs and the table of request fields."""

from functools import lru_cache
from typing import Any, Final

import msgspec

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations import OPERATIONS, Body, Operation, Param, Reply
from tickwheel.interfaces.http.operations.model import HEADERS
from tickwheel.interfaces.http.schemas import components
from tickwheel.interfaces.http.version import VERSION
from tickwheel.interfaces.http.wire import ERRORS, problem_body

Json = dict[str, Any]

_EVERYWHERE: Final = ("malformed_request", "request_timeout", "headers_too_large", "host_not_allowed", "internal")
_NEEDS_TOKEN: Final = ("unauthorized",)
_NEEDS_SCOPE: Final = ("forbidden",)
_OF_OTHERS: Final = ("not_found",)
_OF_TENANTS: Final = ("tenant_disabled", "quota_exceeded")

INTRODUCTION: Final = """\
Tickwheel calls a webhook or a Python handler at an instant, on a cron schedule, or at once, and never loses a job:
a 201 means that the job is on disk.

Requests and answers are JSON in UTF-8. Instants are RFC 3339 with an offset; answers are in UTC with milliseconds.
Unknown fields and parameters are refused by name, so a typing error is never silently ignored. Every error is a
problem document (RFC 9457) whose `code` is stable and whose `errors` name each wrong field.

Everything belongs to a tenant: `tenant_id`, in the body where a job is made and in the query elsewhere; `default`
if it is left out. What belongs to another tenant is answered with 404.

A server with tokens wants `Authorization: Bearer <token>` everywhere but at `/healthz`, `/readyz`,
`/openapi.json` and the pages. A token has scopes (`x-scope` names the one that an operation needs) and belongs to
one tenant or to all of them. With a token of one tenant `tenant_id` can be left out everywhere, and no other one
can be named.
"""

TAGS: Final = {
    "Jobs": "What to call, when, and with which policy.",
    "Steering": "Pause, resume, run now, cancel.",
    "Runs": "One occurrence of a job, with its attempts.",
    "Dead letters": "Runs that have no attempt left.",
    "Workers": "The pull protocol: runs for workers in any language, over HTTP; and how many are needed.",
    "Watching": "Whether all is on time now, and how much will be due.",
    "Access": "Tokens, and the log of who changed what.",
    "Secrets": "Keys that webhooks are signed with, by tenant and name.",
    "Tenants": "Limits, shares and egress policies of tenants, and what they use.",
    "Notifications": "Who is told, by webhook or e-mail, when runs and schedules go wrong.",
    "Server": "Health, metrics, this document.",
}


@lru_cache(maxsize=1)
def openapi_document() -> Json:
    """The whole document. It doesn't change while the process lives: do not modify it."""
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        if operation.in_document:
            paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tickwheel",
            "version": VERSION,
            "summary": "A self-hosted job scheduler.",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components(),
            "headers": {name: {"description": text, "schema": schema} for name, (text, schema) in HEADERS.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, a token of the settings, or a JSON Web Token of the issuer.",
                }
            },
        },
    }


@lru_cache(maxsize=1)
def openapi_bytes() -> bytes:
    """The document as it is served."""
    return msgspec.json.encode(openapi_document())


def _operation(operation: Operation) -> Json:
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "responses": _responses(operation),
    }
    if operation.params:
        described["parameters"] = [_parameter(param) for param in operation.params]
    if operation.public:
        described["security"] = []
    if operation.scope is not None:
        described["x-scope"] = operation.scope.value
    if operation.body is not None:
        described["requestBody"] = _request_body(operation.body)
    return described


def _request_body(body: Body) -> Json:
    content: Json = {"schema": _ref(body.schema), "example": body.example}
    if body.second_example is not None:
        del content["example"]
        content["examples"] = {"first": {"value": body.example}, "second": {"value": body.second_example}}
    return {
        "required": body.required,
        "description": body.description,
        "content": {"application/json": content},
    }


def _parameter(param: Param) -> Json:
    described: Json = {
        "name": param.name,
        "in": param.where,
        "required": param.required,
        "description": param.description,
        "schema": param.schema,
    }
    if param.example is not None:
        described["example"] = param.example
    return described


def _responses(operation: Operation) -> Json:
    responses = {str(reply.status): _reply(reply) for reply in operation.replies}
    for status, codes in problem_codes(operation).items():
        responses[str(status)] = _problem_reply(codes)
    return responses


def _reply(reply: Reply) -> Json:
    described: Json = {"description": reply.description}
    if reply.headers:
        described["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in reply.headers}
    if reply.schema is not None:
        described["content"] = {reply.media_type: {"schema": _ref(reply.schema), "example": reply.example}}
    elif reply.media_type != "application/json":
        described["content"] = {reply.media_type: {"schema": {"type": "string"}}}
    return described


def problem_codes(operation: Operation) -> dict[int, list[str]]:
    """Status -> the codes that this operation may answer with, in rising order of statuses."""
    codes = [*operation.problems, *_EVERYWHERE, *(() if operation.public else _NEEDS_TOKEN)]
    if operation.scope is not None:
        codes += _NEEDS_SCOPE if operation.scope is Scope.WORK else (*_NEEDS_SCOPE, *_OF_TENANTS)
    if any(param.name == "tenant_id" and param.where == "query" for param in operation.params):
        codes += _OF_OTHERS
    by_status: dict[int, list[str]] = {}
    for code in sorted(dict.fromkeys(codes), key=lambda code: ERRORS[code].status):
        by_status.setdefault(ERRORS[code].status, []).append(code)
    return by_status


def _problem_reply(codes: list[str]) -> Json:
    described: Json = {
        "description": " / ".join(f"`{code}`: {ERRORS[code].meaning}" for code in codes),
        "content": {
            "application/problem+json": {
                "schema": _ref("Problem"),
                "examples": {
                    code: {"value": msgspec.to_builtins(problem_body(code, ERRORS[code].meaning))}
                    for code in codes
                },
            }
        },
    }
    headers = [name for code in codes for name in _problem_headers(code)]
    if headers:
        described["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in dict.fromkeys(headers)}
    return described


def _problem_headers(code: str) -> list[str]:
    if ERRORS[code].retry_after_seconds is not None:
        return ["Retry-After"]
    return ["Allow"] if code == "method_not_allowed" else []


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
