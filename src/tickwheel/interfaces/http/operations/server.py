"""Health, metrics, documents, pages."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations.model import Operation, Reply

_TAG: Final = "Server"

SERVER_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/healthz",
        name="health",
        tag=_TAG,
        summary="Whether the process lives",
        description="Says nothing about the store: a restart would not mend that.",
        replies=(
            Reply(200, "It lives.", "HealthBody", {"status": "ok", "version": "0.1.0", "tzdata_version": "2025b"}),
        ),
        public=True,
    ),
    Operation(
        method="GET",
        path="/readyz",
        name="readiness",
        tag=_TAG,
        summary="Whether it can take work",
        description="One cheap round trip to the store, which has to take writes: if it refused a job, a claim or "
        "an end just now (its disk is full, say), the node is not ready until one is taken and none was refused "
        "for 5 s, or for 15 s and the store says that it has room. A node that is stopping, or unfit (its clock "
        "is off, say), is not ready either.",
        replies=(Reply(200, "The store answers.", "ReadyBody", {"status": "ready"}),),
        problems=("store_unavailable", "not_ready"),
        public=True,
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="metrics",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="Metrics for Prometheus",
        replies=(Reply(200, "The text exposition format.", media_type="text/plain"),),
    ),
    Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        tag=_TAG,
        summary="This description for machines",
        description="The same for every server of this version: it needs no token.",
        replies=(Reply(200, "OpenAPI 3.1.", "OpenApi", {"openapi": "3.1.0"}),),
        public=True,
    ),
    Operation(
        method="GET",
        path="/",
        name="dashboard",
        tag=_TAG,
        summary="The dashboard",
        replies=(Reply(200, "A page without data: its scripts ask the API.", media_type="text/html"),),
        in_document=False,
        public=True,
    ),
    Operation(
        method="GET",
        path="/docs",
        name="docs_page",
        tag=_TAG,
        summary="The API reference",
        replies=(Reply(200, "A page.", media_type="text/html"),),
        in_document=False,
        public=True,
    ),
    Operation(
        method="GET",
        path="/assets/{name}",
        name="asset",
        tag=_TAG,
        summary="What the pages are drawn with",
        replies=(Reply(200, "A file.", media_type="text/css"),),
        in_document=False,
        public=True,
    ),
)
