"""Settings of traces: how many are recorded, and the collector that gets them."""

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final
from urllib.parse import unquote, urlsplit

from tickwheel.config.settings import Settings, Wrong

TRACES_PATH: Final = "/v1/traces"
PARTS: Final = 1_000_000
OTEL_VARIABLES: Final = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "otlp_endpoint",
    "OTEL_EXPORTER_OTLP_HEADERS": "otlp_headers",
}
"""What counts where there is no setting of ours: other programs of the machine are set up by it as well."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)


def sampled_parts(text: str) -> int:
    """How many of a million requests are sampled: "0.01" and "1%" are 10,000. Raises ValueError."""
    try:
        share = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        share = Decimal("NaN")
    if share.is_nan() or not 0 <= share <= 1:
        raise ValueError("must be a share such as 0.01 or 1%, from 0 to 1")
    return int(share * PARTS)


def traces_url(endpoint: str) -> str:
    """Where a collector with that address takes traces."""
    bare = endpoint.rstrip("/")
    return bare if bare.endswith(TRACES_PATH) else bare + TRACES_PATH


def otlp_headers(given: Sequence[str]) -> list[tuple[str, str]]:
    """Names and values; the values are percent-encoded, as OpenTelemetry has them. Raises ValueError."""
    headers = []
    for header in given:
        name, equals, value = header.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("must look like name=value")  # without the value: it may be a key
        headers.append((name, value))
    return headers


def otel_values(environ: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
    """What OpenTelemetry's own variables say of settings that are not given; by variable."""
    if "otlp_endpoint" in given:  # their headers belong to their collector
        return {}
    endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not endpoint:
        return {}
    return {key: environ[key].strip() for key in OTEL_VARIABLES if environ.get(key, "").strip()}


def check_traces(settings: Settings, wrong: Wrong) -> None:
    """Tell what can't be used, and what is missing beside what was given."""
    share = 0
    try:
        share = sampled_parts(settings.trace_sample)
    except ValueError as error:
        wrong("trace_sample", str(error))
    try:
        otlp_headers(settings.otlp_headers)
    except ValueError as error:
        wrong("otlp_headers", str(error))
    if settings.otlp_endpoint:
        if not _is_address(settings.otlp_endpoint):
            wrong("otlp_endpoint", "must look like http://127.0.0.1:4318, without a user, a query or a fragment")
    elif share:
        wrong("otlp_endpoint", "is missing; without it the requests of trace_sample are recorded nowhere")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and " " not in text
    extras = parts.username is not None or parts.password is not None or "?" in text or "#" in text
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not extras
