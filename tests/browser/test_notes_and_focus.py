"""Where the keyboard is after a question, and which notes stay."""

import pytest
from playwright.sync_api import expect

from ..interfaces.cli.server_process import ServerProcess
from .browsing import Visiting, confirm, make

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("place", "name"),
    [("/jobs/{job}", "Run now"), ("/jobs/{job}", "Delete"), ("/notifications", "New rule")],
)
def test_a_question_that_is_left_gives_the_focus_back(
    server: ServerProcess, visit: Visiting, place: str, name: str
) -> None:
    page = visit().open(place.format(job=make(server, "asked-about")))
    asked = page.get_by_role("button", name=name, exact=True)
    asked.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(asked).to_be_focused()


def test_a_button_that_was_made_anew_meanwhile_gets_the_focus_too(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "changed-meanwhile")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Run now").click()
    server.client.edit(job_id, job_name="another-name")
    expect(page.locator("main h1")).to_have_text("another-name")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Run now")).to_be_focused()


def test_the_focus_is_on_the_page_after_its_element_is_gone(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "cancelled-by-keyboard")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    confirm(page, "Cancel the job")
    expect(page.locator(".heading .chip")).to_contain_text("cancelled")
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_a_note_goes_with_its_page(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "paused-and-left")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    expect(page.locator("#notes")).to_contain_text("It is paused.")
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")
    expect(page.locator(".note")).to_have_count(0)


def test_a_note_goes_when_something_else_is_done(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "paused-and-resumed")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Resume")
    expect(page.locator("#notes")).to_contain_text("It is resumed.")
    expect(page.locator("#notes")).not_to_contain_text("It is paused.", timeout=1)


def test_an_error_stays_until_it_is_closed(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "gone-meanwhile")
    tab = visit()
    tab.page.clock.install()
    page = tab.open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Pause").click()
    server.client.delete(job_id)
    confirm(page, "Pause")
    expect(page.locator(".note.bad")).to_have_count(1)
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")
    page.clock.fast_forward(60_000)
    expect(page.locator(".note.bad")).to_have_count(1)
    page.locator(".note.bad").get_by_role("button", name="Close").click()
    expect(page.locator(".note")).to_have_count(0)
