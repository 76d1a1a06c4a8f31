"""The OpenAPI document: whole, valid, and its examples are true to it."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tickwheel.domain.requests.compact_request import parse_compact_request
from tickwheel.domain.requests.fields import FIELDS
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.interfaces.http.curl import curl_line, pretty
from tickwheel.interfaces.http.openapi import openapi_bytes, openapi_document
from tickwheel.interfaces.http.operations import OPERATIONS
from tickwheel.interfaces.http.operations.model import HEADERS, Param
from tickwheel.interfaces.http.schema_text import schema_text
from tickwheel.interfaces.http.wire import ERRORS

DOCUMENT = openapi_document()
SCHEMAS = DOCUMENT["components"]["schemas"]


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def validator(schema: dict[str, Any]) -> Any:
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "components": {"schemas": SCHEMAS},
    }
    return jsonschema_rs.validator_for(whole)


def contents(operation: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Every (schema, examples) of a request and its answers."""
    carriers = [operation["requestBody"]] if "requestBody" in operation else []
    carriers += operation["responses"].values()
    for carrier in carriers:
        for content in carrier.get("content", {}).values():
            examples = [content["example"]] if "example" in content else []
            examples += [example["value"] for example in content.get("examples", {}).values()]
            yield content["schema"], examples


def test_every_schema_is_a_valid_schema() -> None:
    for name, schema in SCHEMAS.items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema.get("type") or "anyOf" in schema, name


def test_every_reference_leads_somewhere() -> None:
    for ref in re.findall(rb'"\$ref":"#/components/(\w+)/([\w-]+)"', openapi_bytes()):
        assert ref[1].decode() in DOCUMENT["components"][ref[0].decode()]


@pytest.mark.parametrize(("method", "path", "operation"), list(operations()), ids=lambda v: str(v)[:40])
def test_every_operation_is_described_whole(method: str, path: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
    assert named == set(re.findall(r"{(\w+)}", path))
    for parameter in operation.get("parameters", []):
        assert parameter["description"]
        if "example" in parameter:
            validator(parameter["schema"]).validate(parameter["example"])
    assert any(status.startswith("2") for status in operation["responses"])
    if path not in ("/healthz", "/readyz", "/openapi.json"):
        assert "401" in operation["responses"]
    for status, response in operation["responses"].items():
        assert response["description"]
        if status[0] in "45":
            assert list(response["content"]) == ["application/problem+json"]
        if status in ("429", "503"):
            assert "Retry-After" in response["headers"]
    for schema, examples in contents(operation):
        for example in examples:
            if path != "/v1/jobs/batch" or "results" in example:  # the batch example shows a bad item
                validator(schema).validate(example)


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))


def test_every_field_of_the_table_is_in_the_request_schema() -> None:
    for field in FIELDS:
        schema = SCHEMAS["JobRequest"]
        for step in field.path.split("."):
            name, is_list, _ = step.partition("[]")
            schema = schema["properties"][name]
            schema = schema["items"] if is_list else schema
        assert schema["description"] == field.summary


def test_request_examples_are_accepted_by_the_parser() -> None:
    for operation in OPERATIONS:
        if operation.body is None:
            continue
        text = pretty(operation.body.example).encode()
        if operation.body.schema == "JobRequest":
            parse_job_request(text)
        if operation.body.schema == "CompactRequest":
            parse_compact_request(text)


def test_every_code_that_is_used_is_explained() -> None:
    for operation in OPERATIONS:
        assert set(operation.problems) <= ERRORS.keys()
        assert all(set(reply.headers) <= HEADERS.keys() for reply in operation.replies)


def test_curl_lines_name_method_address_and_body() -> None:
    lines = {operation.name: curl_line(operation) for operation in OPERATIONS}
    assert lines["get_job"] == "curl -sS http://localhost:8080/v1/jobs/job_01KB87RMR0003MZHB1C9HP8SB6"
    assert lines["delete_dead_letter"].startswith("curl -sS -X DELETE http://localhost:8080/v1/dlq/run_")
    assert "-X" not in lines["create_job"]
    assert "-d '{" in lines["create_job"]
    assert lines["cancel_job"].startswith("curl -sS -X POST ")
    assert lines["list_jobs"] == "curl -sS 'http://localhost:8080/v1/jobs?status=SCHEDULED'"
    assert "-X PUT http://localhost:8080/v1/jobs/by-name/nightly-report" in lines["put_job"]


def params_in(where: str) -> list[Param]:
    return [p for operation in OPERATIONS for p in operation.params if p.where == where]


def test_parameters_in_words() -> None:
    words = {p.name: schema_text(p) for where in ("query", "header", "path") for p in params_in(where)}
    assert words["limit"] == "integer, 1 to 1000, default 50"
    assert words["priority"] == "CRITICAL or HIGH or DEFAULT or LOW"
    assert words["due_from"] == "date-time"
    assert words["job_id"] == "string, required"
