"""Health, readiness, metrics, documents, pages, and paths that do not exist."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.openapi import openapi_document
from tickwheel.interfaces.http.operations import OPERATIONS
from tickwheel.interfaces.http.wire import ERRORS

from .asgi_client import AsgiClient
from .world import ENDPOINT, HttpWorld


class Page(HTMLParser):
    """Collects what a page links to, and checks that its tags are closed in order."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.tags.append(tag)
        assert tag not in ("script", "style", "iframe")
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


async def page(client: AsgiClient, path: str) -> Page:
    reply = await client.get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    return Page(reply.body.decode())


async def test_health_says_versions(world: HttpWorld) -> None:
    reply = await world.client.get("/healthz")
    assert reply.status == 200
    assert reply.json["status"] == "ok"
    assert reply.json["tzdata_version"] == tzdata_version()


async def test_readiness_follows_the_store(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise StoreUnavailable("the disk is full")

    assert (await world.client.get("/readyz")).json == {"status": "ready"}
    monkeypatch.setattr(world.store, "check", broken)
    reply = await world.client.get("/readyz")
    assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "store_unavailable", "1")
    assert (await world.client.get("/healthz")).status == 200


async def test_an_unfit_node_is_not_ready_and_lives(world: HttpWorld) -> None:
    reason = "this machine's clock is 10.2 s ahead of the database's"
    client = AsgiClient(build_app(replace(world.deps, unfit=lambda: reason)))
    reply = await client.get("/readyz")
    assert (reply.status, reply.code, reply.json["detail"]) == (503, "not_ready", reason)
    assert (await client.get("/healthz")).status == 200


async def test_a_node_whose_store_takes_no_writes_is_not_ready(world: HttpWorld) -> None:
    client = AsgiClient(build_app(replace(world.deps, refusal=lambda: "the disk is full")))
    reply = await client.get("/readyz")
    assert (reply.status, reply.code) == (503, "store_unavailable")
    assert reply.json["detail"] == "The store takes no writes: the disk is full"


async def test_a_node_without_the_api_serves_health_and_metrics_only(world: HttpWorld) -> None:
    client = AsgiClient(build_app(replace(world.deps, serves_api=False)))
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await client.get(path)).status == 200
    for path in ("/v1/jobs", "/", "/docs", "/openapi.json", "/v1/jobs/job_1"):
        reply = await client.get(path)
        assert (reply.status, reply.code) == (404, "no_such_path"), path
        assert "no API" in reply.json["detail"]
    assert (await client.post("/v1/jobs", {})).status == 404


async def test_metrics_are_prometheus_text(world: HttpWorld) -> None:
    reply = await world.client.get("/metrics")
    assert reply.body == b"# HELP up x\nup 1\n"
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_the_served_document_is_the_built_one(world: HttpWorld) -> None:
    assert (await world.client.get("/openapi.json")).json == openapi_document()


@pytest.mark.parametrize(
    "path", ["/v2/jobs", "/v1/jobs/", "/v1/jobs/a/b", "/v1", "/favicon.ico", "//", "/v1/jobs/%2e%2e/x"]
)
async def test_a_path_that_does_not_exist_is_404_with_every_method(world: HttpWorld, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS", "FOO"):
        reply = await world.client.request(method, path)
        assert reply.status in (404, 405)
        if method != "FOO":
            assert reply.code == "no_such_path"


async def test_every_documented_path_answers_options(world: HttpWorld) -> None:
    methods: dict[str, set[str]] = {}
    for operation in OPERATIONS:
        methods.setdefault(operation.path, set()).add(operation.method)
    for path, expected in methods.items():
        reply = await world.client.request("OPTIONS", re.sub(r"{\w+}", "x", path))
        allowed = set(reply.headers["allow"].split(", "))
        assert allowed == expected | {"OPTIONS"} | ({"HEAD"} if "GET" in expected else set())


async def test_curl_lines_of_the_reference_page_call_this_server_on_ones_own_machine(world: HttpWorld) -> None:
    for host, base in (("127.0.0.1:9000", "127.0.0.1:9000"), ("10.0.0.7:9000", "localhost:8080")):
        text = (await world.client.request("GET", "/docs", headers={"host": host})).body.decode()
        assert f"curl -sS http://{base}/v1/jobs " in text


async def test_the_reference_page_explains_every_operation_and_error(world: HttpWorld) -> None:
    shown = await page(world.client, "/docs")
    assert {operation.name for operation in OPERATIONS if operation.in_document} <= set(shown.ids)
    assert {f"problem-{code}" for code in ERRORS} <= set(shown.ids)
    assert len(shown.ids) == len(set(shown.ids))
    for link in shown.links:
        if link.startswith("#"):
            assert link[1:] in shown.ids
        else:
            assert (await world.client.get(f"/{link.lstrip('./')}")).status == 200, link
    assert "target.headers" in shown.text


async def test_assets_have_their_types(world: HttpWorld) -> None:
    assert (await world.client.get("/assets/pages.css")).headers["content-type"].startswith("text/css")
    assert (await world.client.get("/assets/icon.svg")).headers["content-type"] == "image/svg+xml"
    for wrong in ("x", "../app.py", "%2e%2e/app.py", ""):
        assert (await world.client.get(f"/assets/{wrong}")).code == "no_such_path"


async def test_with_tokens_everything_but_health_wants_one() -> None:
    world = await HttpWorld().open("t0ken")
    for operation in OPERATIONS:
        path = re.sub(r"{\w+}", "x", operation.path)
        reply = await world.client.request(operation.method, path)
        is_open = path in ("/", "/healthz", "/readyz", "/docs", "/openapi.json")
        expected = 200 if is_open else 404 if operation.path == "/assets/{name}" else 401
        assert reply.status == expected, path
    assert (await world.client.get("/nowhere")).status == 401
    client = AsgiClient(world.app, "t0ken")
    body = {"schedule_type": "INSTANT", "target": {"endpoint": ENDPOINT}}
    assert (await client.post("/v1/jobs", body)).status == 201
    assert (await client.get("/")).status == 200
    await world.close()
