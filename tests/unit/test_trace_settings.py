"""Settings of traces: shares, addresses, headers, and the variables of OpenTelemetry."""

from typing import Any

import pytest

from tickwheel.config import load_settings
from tickwheel.config.trace_rules import otlp_headers, sampled_parts, traces_url
from tickwheel.domain.errors import ConfigError

COLLECTOR = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("0", 0), ("1", 1_000_000), ("0.01", 10_000), ("1%", 10_000), ("100%", 1_000_000), ("0.1%", 1_000)],
)
def test_a_share_is_a_number_or_so_many_of_a_hundred(text: str, parts: int) -> None:
    assert sampled_parts(text) == parts


@pytest.mark.parametrize("text", ["", "x", "-1", "1.1", "101%", "%", "NaN", "inf", "1%%"])
def test_other_shares_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a share"):
        sampled_parts(text)


@pytest.mark.parametrize(
    ("given", "field", "word"),
    [
        ({"trace_sample": "2"}, "--trace-sample", "must be a share"),
        ({"trace_sample": "1%"}, "otlp_endpoint", "is missing"),
        ({"otlp_endpoint": "127.0.0.1:4318"}, "--otlp-endpoint", "must look like"),
        ({"otlp_endpoint": "http://u:planted@h"}, "--otlp-endpoint", "without a user"),
        ({"otlp_endpoint": "http://h:99999"}, "--otlp-endpoint", "must look like"),
        ({"otlp_endpoint": "http://h/x?key=planted"}, "--otlp-endpoint", "a query"),
        ({"otlp_endpoint": COLLECTOR, "otlp_headers": ("planted",)}, "--otlp-headers", "name=value"),
        ({"otlp_endpoint": COLLECTOR, "otlp_headers": ("a=planted%0d%0aX: 1",)}, "--otlp-headers", "name=value"),
    ],
)
def test_wrong_settings_are_refused_with_name_and_remedy(given: dict[str, Any], field: str, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(flags=given, environ={})
    [problem] = refused.value.problems
    assert problem.field == field
    assert word in problem.message
    assert "planted" not in str(refused.value)


def test_headers_are_percent_encoded_and_shown_nowhere() -> None:
    settings = load_settings(flags={}, environ={"TICKWHEEL_OTLP_HEADERS": "Authorization=Bearer%20planted,b=c"})
    assert otlp_headers(settings.otlp_headers) == [("Authorization", "Bearer planted"), ("b", "c")]
    assert "planted" not in repr(settings)


@pytest.mark.parametrize("given", [COLLECTOR, COLLECTOR + "/", COLLECTOR + "/v1/traces"])
def test_the_path_of_traces_is_added_once(given: str) -> None:
    assert traces_url(given) == COLLECTOR + "/v1/traces"


def test_the_variables_of_opentelemetry_count_where_nothing_else_is_said() -> None:
    otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR, "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    settings = load_settings(flags={}, environ=otel)
    assert (settings.otlp_endpoint, settings.otlp_headers) == (COLLECTOR, ("a=b",))
    own = load_settings(flags={}, environ=otel | {"TICKWHEEL_OTLP_ENDPOINT": "http://other"})
    assert (own.otlp_endpoint, own.otlp_headers) == ("http://other", ())
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        load_settings(flags={}, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense"})
