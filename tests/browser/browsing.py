"""A real browser on a real server: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tickwheel.interfaces.client.job_fields import JobFields

from ..interfaces.cli.server_process import ServerProcess

PATIENCE_MS = 15_000
FAR = "0 4 1 1 *"
CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# --no-sandbox: in containers and as root Chromium refuses to start with it.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """The browser's program, if there is one; TESTS_CHROMIUM names another."""
    return os.environ.get("TESTS_CHROMIUM") or next(filter(None, map(shutil.which, CANDIDATES)), None)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Chromium; skips where there is none."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One person's tab: `page` to act on, and what went wrong or was asked of anybody else meanwhile."""

    def __init__(
        self, browser: Browser, url: str, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        self.url = url.rstrip("/")
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            timezone_id="Europe/Berlin",
            locale="en-GB",
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.faults: list[str] = []
        self.strangers: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("console", self._told)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._asked)

    def _told(self, message: ConsoleMessage) -> None:
        # An answer that is no success is told by the browser itself; the pages deal with it.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.strangers.append(request.url)

    def open(self, place: str = "/") -> Page:
        """Go to a page of the dashboard, and wait until it is there."""
        self.page.goto(f"{self.url}/#{place}")
        self.page.locator("main h1").first.wait_for()
        return self.page

    def close(self) -> None:
        """Nothing may have gone wrong."""
        self.context.close()
        assert not self.faults
        assert not self.strangers


Visiting = Callable[..., Visit]
expect.set_options(timeout=PATIENCE_MS)


def make(server: ServerProcess, name: str, endpoint: str = "", **members: object) -> str:
    """A recurring job that is not due for a while; its id."""
    target = {"endpoint": endpoint or f"{server.url}/echo"}
    given = {"job_name": name, "target": target, "cron_expression": FAR, "schedule_type": "CRON", **members}
    return server.client.schedule(cast(JobFields, given)).job_id


def confirm(page: Page, action: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
