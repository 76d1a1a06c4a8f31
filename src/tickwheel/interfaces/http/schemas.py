"""The schema components of the OpenAPI document: requests from the field table, answers from their structs."""

from typing import Any, Final

import msgspec

from tickwheel.domain.limits import BATCH_COUNT
from tickwheel.domain.requests.compact_request import COMPACT_FIELDS, TRIGGER_TYPES
from tickwheel.domain.requests.fields import FIXED_FIELDS, Field, Kind, children
from tickwheel.interfaces.http.access_bodies import ACCESS_TYPES
from tickwheel.interfaces.http.answers import ANSWER_TYPES, REF
from tickwheel.interfaces.http.explanation_bodies import EXPLANATION_TYPES
from tickwheel.interfaces.http.live_bodies import LIVE_TYPES
from tickwheel.interfaces.http.notification_bodies import NOTIFICATION_TYPES
from tickwheel.interfaces.http.secret_bodies import SECRET_TYPES
from tickwheel.interfaces.http.slo_bodies import SLO_TYPES
from tickwheel.interfaces.http.tenant_bodies import TENANT_TYPES
from tickwheel.interfaces.http.wire import Problem
from tickwheel.interfaces.http.worker_bodies import WORKER_TYPES

Json = dict[str, Any]

_TYPES: Final = {
    Kind.STRING: "string",
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.INSTANT: "string",
    Kind.ENUM: "string",
    Kind.OBJECT: "object",
    Kind.STRING_MAP: "object",
    Kind.STRING_LIST: "array",
    Kind.OBJECT_LIST: "array",
}

_COMPACT_REQUIRED: Final = ("target_endpoint", "trigger_type")


def components() -> Json:
    """Name -> JSON schema."""
    _, found = msgspec.json.schema_components(
        (
            *ANSWER_TYPES,
            *WORKER_TYPES,
            *ACCESS_TYPES,
            *SECRET_TYPES,
            *TENANT_TYPES,
            *NOTIFICATION_TYPES,
            *LIVE_TYPES,
            *EXPLANATION_TYPES,
            *SLO_TYPES,
            Problem,
        ),
        ref_template=REF + "{name}",
    )
    return {
        "JobRequest": _object("", required=True),
        "JobChange": _object("", required=False, leave_out=FIXED_FIELDS),
        "CompactRequest": _compact(),
        "JobBatch": {
            "type": "array",
            "maxItems": BATCH_COUNT,
            "items": {"$ref": REF + "JobRequest"},
        },
        "OpenApi": {"type": "object", "description": "An OpenAPI document.", "additionalProperties": True},
        **{name: _documented(name, schema) for name, schema in found.items()},
    }


def _object(parent: str, *, required: bool, leave_out: tuple[str, ...] = ()) -> Json:
    fields = {name: field for name, field in children(parent).items() if name not in leave_out}
    schema: Json = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _property(field, required=required) for name, field in fields.items()},
    }
    wanted = [name for name, field in fields.items() if field.required]
    if required and wanted:
        schema["required"] = wanted
    return schema


def _compact() -> Json:
    properties = {
        name: _property(field, required=name in _COMPACT_REQUIRED) for name, field in COMPACT_FIELDS.items()
    }
    for name in _COMPACT_REQUIRED:
        properties[name]["type"] = "string"
    properties["trigger_type"]["enum"] = list(TRIGGER_TYPES)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(_COMPACT_REQUIRED),
    }


def _property(field: Field, *, required: bool) -> Json:
    schema = _object(field.path, required=required) if field.kind is Kind.OBJECT else _plain(field)
    if "type" in schema and not (field.required and required):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    schema["description"] = field.summary
    if field.default not in (None, ""):
        schema["default"] = field.default
    return schema


def _plain(field: Field) -> Json:
    if field.kind is Kind.ANY:
        return {}
    schema: Json = {"type": _TYPES[field.kind]}
    bounds = {
        "minimum": field.minimum,
        "maximum": field.maximum,
        "maxLength": field.max_chars if field.kind is not Kind.STRING_LIST else None,
        "maxItems": field.max_items if field.kind in (Kind.STRING_LIST, Kind.OBJECT_LIST) else None,
        "maxProperties": field.max_items if field.kind is Kind.STRING_MAP else None,
        "enum": list(field.choices) or None,
        "format": "date-time" if field.kind is Kind.INSTANT else None,
    }
    schema.update({name: bound for name, bound in bounds.items() if bound is not None})
    if field.kind is Kind.STRING_MAP:
        schema["additionalProperties"] = {"type": "string"}
    if field.kind is Kind.STRING_LIST:
        schema["items"] = {"type": "string", "minLength": 1, "maxLength": field.max_chars}
    if field.kind is Kind.OBJECT_LIST:
        schema["items"] = _object(f"{field.path}[]", required=True)
    return schema


def _documented(name: str, schema: Json) -> Json:
    """Answers may grow new fields, so they are open; docstrings become descriptions by themselves."""
    plain: Json = msgspec.json.decode(msgspec.json.encode(schema))  # defaults that are tuples become lists
    if "enum" in plain:
        plain["type"] = "string"
    return {key: value for key, value in plain.items() if key != "title"} | {"title": name}
