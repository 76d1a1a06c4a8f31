"""Signing in, rights, tenants, and a prefix before the address."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from ..interfaces.cli.server_process import ServerProcess, json_of, run_cli
from .browsing import Visit, Visiting

pytestmark = pytest.mark.slow


class Guarded:
    """A `serve` that asks for tokens, and the token of its administrator."""

    def __init__(self, url: str, admin: str) -> None:
        self.url, self.admin = url, admin

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": f"Bearer {token or self.admin}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or "null")

    def key(self, role: str, tenant_id: str | None = None) -> str:
        whose = {"all_tenants": True} if tenant_id is None else {"tenant_id": tenant_id}
        return str(self.ask("POST", "/v1/tokens", {"role": role, **whose})["token"])

    def job(self, name: str, tenant_id: str = "default") -> str:
        body = {
            "job_name": name,
            "tenant_id": tenant_id,
            "schedule_type": "CRON",
            "cron_expression": "0 4 1 1 *",
            "target": {"endpoint": "https://example.com/hook"},
        }
        return str(self.ask("POST", "/v1/jobs", body)["job_id"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    data = ("--data", str(folder / "data"))
    made = run_cli("tokens", "create", "--role", "admin", "--all-tenants", *data, "--json", folder=folder)
    with ServerProcess(*data, folder=folder, command="serve") as server:
        yield Guarded(server.url, json_of(made)["token"])


def signed_in(visit: Visiting, guarded: Guarded, token: str, place: str = "/") -> Visit:
    tab = visit(guarded.url)
    tab.page.goto(f"{guarded.url}/#{place}")
    tab.page.get_by_label("Token").fill(token)
    tab.page.get_by_role("button", name="Sign in").click()
    expect(tab.page.get_by_role("heading", level=1)).not_to_have_text("Sign in")
    return tab


def test_a_token_is_asked_for_kept_in_the_tab_and_forgotten(guarded: Guarded, visit: Visiting) -> None:
    tab = visit(guarded.url)
    page = tab.page
    page.goto(f"{guarded.url}/#/jobs")
    page.get_by_label("Token").fill("tw_wrong_token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".sign-in [role=alert]")).to_be_visible()
    page.get_by_label("Token").fill(guarded.admin)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert guarded.admin not in page.url
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie").find(guarded.admin) == -1
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_reader_of_one_tenant_sees_that_only_and_changes_nothing(guarded: Guarded, visit: Visiting) -> None:
    guarded.job("theirs", "other")
    job_id = guarded.job("ours", "acme")
    page = signed_in(visit, guarded, guarded.key("reader", "acme"), "/jobs").page
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("header")).to_contain_text("tenant acme")
    names = page.get_by_role("navigation", name="Pages").first.get_by_role("link").all_inner_texts()
    assert names == ["Overview", "Jobs", "Dead letters", "Tenants"]
    expect(page.get_by_role("button", name="New job")).to_be_disabled()
    expect(page.get_by_role("link", name="New job")).to_have_count(0)
    page.goto(f"{guarded.url}/#/jobs/{job_id}")
    for name in ("Run now", "Pause", "Edit", "Cancel", "Delete"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    page.goto(f"{guarded.url}/#/tenants")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tenant “acme”")
    expect(page.get_by_role("button", name="Change limits")).to_be_disabled()


def test_a_reader_of_all_tenants_is_not_told_of_what_it_may_not_see(guarded: Guarded, visit: Visiting) -> None:
    guarded.job("next-year")
    page = signed_in(visit, guarded, guarded.key("reader")).page
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.get_by_role("link", name="next-year").first).to_be_visible()
    expect(page.locator("main [role=alert]")).to_have_count(0)
    expect(page.get_by_role("heading", name="The next hour")).to_have_count(0)


def test_an_operator_looks_at_one_tenant_after_the_other(guarded: Guarded, visit: Visiting) -> None:
    guarded.job("seen-by-operators", "zoo")
    page = signed_in(visit, guarded, guarded.key("operator"), "/jobs").page
    page.get_by_label("Tenant whose jobs are shown").fill("zoo")
    page.get_by_label("Tenant whose jobs are shown").press("Enter")
    page.get_by_role("link", name="seen-by-operators").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("seen-by-operators")
    assert "tenant=zoo" in page.url
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".heading .chip")).to_contain_text("paused")
    page.get_by_role("link", name="Audit log").click()
    expect(page.locator("tbody tr").first).to_contain_text("job.pause")


def test_the_reference_opens_without_a_token(guarded: Guarded, visit: Visiting) -> None:
    page = visit(guarded.url).page
    page.goto(guarded.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.locator(".sign-in")).to_contain_text("--role reader --tenant NAME")
    page.get_by_role("link", name="API reference").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API reference")


def test_the_audit_log_names_keys_and_tenants_and_is_searched(guarded: Guarded, visit: Visiting) -> None:
    body = {"role": "scheduler", "tenant_id": "farm", "label": "the orchard"}
    token = str(guarded.ask("POST", "/v1/tokens", body)["token"])
    job = {"schedule_type": "DELAYED", "delay_seconds": 9999, "target": {"endpoint": "https://example.com/"}}
    guarded.ask("POST", "/v1/jobs", job, token)
    guarded.ask("DELETE", f"/v1/tokens/{token.split('_')[1]}")
    guarded.job("of the default tenant")
    page = signed_in(visit, guarded, guarded.admin, "/audit-log").page
    expect(page.locator("tbody tr").first).to_contain_text("default")
    expect(page.locator("tbody")).to_contain_text("the orchard")
    page.get_by_label("Action", exact=True).fill("token")
    page.get_by_label("Tenant", exact=True).fill("farm")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    assert page.locator("tbody code").all_inner_texts() == ["token.revoke", "token.create"]
    page.get_by_label("Action", exact=True).fill("")
    page.get_by_label("Before", exact=True).fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Before", exact=True)).to_have_value("2020-01-01T00:00")
    page.get_by_label("Before", exact=True).fill("")
    page.get_by_label("Tenant", exact=True).fill("default")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr").first).to_contain_text("default")
    expect(page.locator("tbody")).not_to_contain_text("farm")


def test_a_token_that_is_revoked_meanwhile_is_asked_for_again(guarded: Guarded, visit: Visiting) -> None:
    token = guarded.key("operator")
    page = signed_in(visit, guarded, token, "/jobs").page
    token_id = token.split("_")[1]
    guarded.ask("DELETE", f"/v1/tokens/{token_id}")
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


class Proxy(BaseHTTPRequestHandler):
    """Serves `/tools/tickwheel/...` from the server behind it, without the prefix."""

    PREFIX = "/tools/tickwheel"
    behind = ""

    def do_GET(self) -> None:
        assert self.path.startswith(f"{self.PREFIX}/"), f"left its prefix: {self.path}"
        connection = HTTPConnection(urlsplit(self.behind).netloc, timeout=30)
        connection.request("GET", self.path.removeprefix(self.PREFIX), headers=dict(self.headers.items()))
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        try:
            while piece := answer.read1(65_536):
                self.wfile.write(piece)
        except OSError:
            pass  # the tab was closed
        finally:
            connection.close()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxied(server: ServerProcess, kind: type[Proxy] = Proxy) -> Iterator[str]:
    """The address of a proxy before the server."""
    handler = type("Behind", (kind,), {"behind": server.url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}{Proxy.PREFIX}"
        finally:
            proxy.shutdown()


def test_behind_a_prefix(server: ServerProcess, visit: Visiting) -> None:
    with proxied(server) as url:
        tab = visit(url)
        try:
            page = tab.open("/")
            expect(page.locator('[aria-label="Standing"]')).to_be_visible()
            page.get_by_role("link", name="Jobs", exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
            page.get_by_role("link", name="API reference").click()
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        finally:
            tab.page.goto("about:blank")


def test_who_signs_in_again_sees_the_page_again(guarded: Guarded, visit: Visiting) -> None:
    token = guarded.key("operator")
    page = signed_in(visit, guarded, token, "/workers").page
    guarded.ask("DELETE", f"/v1/tokens/{token.split('_')[1]}")
    page.get_by_label("Token").fill(guarded.admin)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
