"""A server that dies, hangs or comes back while somebody looks on."""

import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from ..interfaces.cli.server_process import ServerProcess
from .browsing import Visiting
from .test_access import Proxy, proxied

pytestmark = pytest.mark.slow
LINE = "Nothing has been heard from the server since"


def expect_silence(page: Page) -> None:
    """One line says it, nothing looks well, and what is shown is greyed."""
    expect(page.locator(".contact")).to_contain_text(LINE)
    expect(page.locator('[aria-label="Standing"]')).to_contain_text("Not known since")
    expect(page.locator('[aria-label="Standing"].good')).to_have_count(0)
    expect(page.locator("main.silent")).to_have_count(1)


def expect_one_alert_after_tries(page: Page) -> None:
    for _ in range(3):
        with page.expect_event("requestfailed"):
            pass
    expect(page.get_by_role("alert")).to_have_count(1)


def expect_all_is_well(page: Page) -> None:
    expect(page.locator(".contact .banner")).to_have_count(0)
    expect(page.locator('[aria-label="Standing"].good')).to_be_visible()
    expect(page.locator("main.silent")).to_have_count(0)
    expect(page.locator("main [role=alert]")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("does not answer")


def test_a_killed_server_is_told_once_and_its_successor_is_found(tmp_path: Path, visit: Visiting) -> None:
    data = ("--data", str(tmp_path / "data"))
    with ServerProcess(*data, folder=tmp_path) as server:
        page = visit(server.url).open("/")
        expect(page.locator('[aria-label="Standing"].good')).to_be_visible()
        expect(page.locator(".heatstrip")).to_be_visible()
        server.process.kill()
        expect_silence(page)
        expect_one_alert_after_tries(page)
        expect(page.locator(".heatstrip")).to_be_visible()
    with ServerProcess(*data, "--port", str(urlsplit(server.url).port), folder=tmp_path):
        expect_all_is_well(page)
        expect(page.locator(".heatstrip")).to_be_visible()
        page.goto("about:blank")


def test_a_hanging_server_is_told_within_seconds(tmp_path: Path, visit: Visiting) -> None:
    with ServerProcess("--data", str(tmp_path / "data"), folder=tmp_path) as server:
        page = visit(server.url).open("/")
        expect(page.locator('[aria-label="Standing"].good')).to_be_visible()
        server.process.send_signal(signal.SIGSTOP)
        try:
            expect_silence(page)
            expect_one_alert_after_tries(page)
        finally:
            server.process.send_signal(signal.SIGCONT)
        expect_all_is_well(page)
        page.goto("about:blank")


def test_a_page_that_is_opened_meanwhile_opens_by_itself_later(tmp_path: Path, visit: Visiting) -> None:
    data = ("--data", str(tmp_path / "data"))
    with ServerProcess(*data, folder=tmp_path) as server:
        page = visit(server.url).open("/")
        expect(page.locator('[aria-label="Standing"].good')).to_be_visible()
        server.process.kill()
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("This can't be shown")
        expect(page.locator(".contact")).to_contain_text(LINE)
    with ServerProcess(*data, "--port", str(urlsplit(server.url).port), folder=tmp_path):
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        expect(page.locator(".contact .banner")).to_have_count(0)


class BreaksOff(Proxy):
    """Ends its first answer about jobs in the middle."""

    broken = 0

    def do_GET(self) -> None:
        if BreaksOff.broken or "/v1/jobs" not in self.path:
            super().do_GET()
            return
        BreaksOff.broken += 1
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"{")


def test_an_answer_that_breaks_off_is_asked_for_again(server: ServerProcess, visit: Visiting) -> None:
    BreaksOff.broken = 0
    with proxied(server, BreaksOff) as url:
        page = visit(url).open("/jobs")
        try:
            expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
            assert BreaksOff.broken == 1
        finally:
            page.goto("about:blank")
