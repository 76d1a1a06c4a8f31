"""What people do in the dashboard, in a real browser on a real server."""

import json
import re
import urllib.request

import pytest
from playwright.sync_api import expect

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .browsing import Visiting, confirm, make

pytestmark = pytest.mark.slow


def test_a_failing_job_is_found_understood_mended_and_redriven(server: ServerProcess, visit: Visiting) -> None:
    page = visit().open("/")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("link", name="New job").first.click()
    page.get_by_label("Name").fill("sync-crm")
    page.get_by_label("Cron expression").fill("*/1 * * * * *")
    page.get_by_label("Calls").fill(f"{server.url}/no-such-place")
    page.get_by_label("Retries after a failure").fill("0")
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sync-crm")

    page.get_by_role("link", name="Overview").click()
    page.locator("h2", has_text="Last failures").locator("+ div").get_by_role(
        "link", name="sync-crm"
    ).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run of sync-crm")
    expect(page.locator("main")).to_contain_text("answered 404")
    failed_run = page.url

    page.get_by_role("heading", level=1).get_by_role("link", name="sync-crm").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Calls").fill(f"{server.url}/echo")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notes")).to_contain_text("It is saved.")
    expect(page.locator("tbody .chip", has_text="succeeded").first).to_be_visible()

    page.goto(failed_run)
    page.get_by_role("button", name="Redrive").click()
    confirm(page, "Redrive")
    expect(page.locator(".under .chip")).to_contain_text("succeeded")

    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("button", name="Redrive all").click()
    confirm(page, "Redrive")
    expect(page.locator("#notes")).to_contain_text("will run again.")

    def left() -> bool:
        return any(letter.job_name == "sync-crm" for letter in server.client.list_dead_letters().dead_letters)

    wait_until(lambda: not left(), why="none of its runs is dead any more")
    for job in server.client.list(name_prefix="sync-crm").jobs:
        server.client.delete(job.job_id)


def test_a_job_is_paused_and_that_is_undone(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "pausable")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    expect(page.locator(".heading .chip")).to_contain_text("paused")
    expect(page.locator("main")).to_contain_text("None while it is paused.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".heading .chip")).to_contain_text("scheduled")
    assert server.client.get(job_id).status == "SCHEDULED"


def test_leaving_a_question_does_nothing(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "kept")
    page = visit().open(f"/jobs/{job_id}")
    for name in ("Delete", "Cancel", "Run now"):
        page.get_by_role("button", name=name, exact=True).click()
        page.get_by_role("button", name="Leave it").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert server.client.get(job_id).status == "SCHEDULED"


def test_run_now_shows_the_run_with_its_stations(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "wanted-now")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Run now").click()
    confirm(page, "Run now")
    expect(page.locator(".under .chip")).to_contain_text("succeeded")
    reached = page.locator(".stations .reached b")
    expect(reached).to_have_text(["armed", "due", "claimed", "dispatched", "started", "finished"])


def test_cancel_and_delete(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "short-lived")
    page = visit().open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the job")
    expect(page.locator(".heading .chip")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Edit")).to_be_disabled()
    page.get_by_role("button", name="Delete").click()
    confirm(page, "Delete the job")
    expect(page).to_have_url(re.compile("#/jobs$"))
    page.goto(f"{server.url}/#/jobs/{job_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such thing")


def test_an_edit_shows_what_appears_moves_and_vanishes_and_can_be_put_back(
    server: ServerProcess, visit: Visiting
) -> None:
    job_id = make(server, "movable", cron_expression="30 2 * * *", timezone="Europe/Berlin")
    page = visit().open(f"/jobs/{job_id}/edit")
    changes = page.locator(".edit section .live")
    expect(changes).to_contain_text("Its times stay as they are.")
    page.get_by_label("Cron expression").fill("0 5 * * *")
    expect(changes.locator(".mark.moves").first).to_be_visible()
    page.get_by_label("Cron expression").fill("30 2 * * 1-5")
    expect(changes.locator(".mark.vanishes").first).to_be_visible()
    page.get_by_label("Cron expression").fill("30 2,14 * * *")
    expect(changes.locator(".mark.appears").first).to_be_visible()
    page.get_by_label("Cron expression").fill("61 2 * * *")
    expect(changes).to_contain_text("61")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Cron expression")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Cron expression").fill("0 5 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("05:00:00")
    assert server.client.get(job_id).cron_expression == "0 5 * * *"
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: server.client.get(job_id).cron_expression == "30 2 * * *", why="put back")


def test_clock_changes_are_told(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "in-the-gap", cron_expression="30 2 * 3 0", timezone="Europe/Berlin")
    page = visit().open(f"/jobs/{job_id}")
    expect(page.locator(".notes")).to_contain_text("Europe/Berlin goes from 02:00:00 to 03:00:00")
    expect(page.locator(".pair")).to_contain_text("UTC+1")


def test_filters_live_in_the_address(server: ServerProcess, visit: Visiting) -> None:
    make(server, "tagged-one", tags=["billing"])
    make(server, "tagged-two", tags=["billing"], priority="HIGH")
    page = visit().open("/jobs")
    page.get_by_label("Search").fill("tagged-")
    page.get_by_label("Search").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Priority").select_option("HIGH")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "q=tagged-" in page.url
    assert "priority=HIGH" in page.url
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Search").fill("nothing-is-called-so")
    page.get_by_label("Search").press("Enter")
    expect(page.locator(".empty")).to_contain_text("Take a filter out")


def test_an_id_in_the_search_leads_to_its_page(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "looked-for")
    page = visit().open("/jobs")
    page.get_by_label("Search").fill(job_id)
    page.get_by_label("Search").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("looked-for")


def test_markup_in_names_is_text(server: ServerProcess, visit: Visiting) -> None:
    name = "<img src=x onerror=alert(1)> & <b>bold</b>"
    job_id = make(server, name)
    page = visit().open(f"/jobs/{job_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert page.locator("main img, main b").count() == 0


def test_the_overview_follows_what_happens(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "counted")
    page = visit().open("/")
    starts = page.locator(".card.wide b")
    expect(starts).to_be_visible()
    before = int(starts.inner_text().replace(",", ""))
    for _ in range(5):
        server.client.trigger(job_id)
    expect(starts).not_to_have_text(str(before))
    expect(page.locator('[aria-label="Standing"]')).to_contain_text("in the last minute")


def test_the_heat_strip_works_by_keyboard(server: ServerProcess, visit: Visiting) -> None:
    for _ in range(25):
        make(server, "crowd", cron_expression="0 * * * *")

    def crowded() -> bool:  # a forecast is kept for half a minute
        with urllib.request.urlopen(f"{server.url}/v1/forecast?minutes=180", timeout=20) as answer:
            return bool(json.load(answer)["peaks"])

    wait_until(crowded, why="the forecast knows of the crowd")
    page = visit().open("/upcoming?hours=3")
    expect(page.locator(".heatstrip .heat-6").first).to_be_visible()
    page.locator('.heatstrip [tabindex="0"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("main h2").first).to_contain_text("due")
    expect(page.locator("main")).to_contain_text("Give jobs that need not run at")


def test_dead_letters_are_grouped_and_redriven_by_cause(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "always-404", f"{server.url}/none", retry_policy={"max_retries": 0})
    for _ in range(3):
        server.client.trigger(job_id)

    def dead() -> int:
        return sum(letter.job_name == "always-404" for letter in server.client.list_dead_letters().dead_letters)

    wait_until(lambda: dead() == 3, why="all have failed")
    page = visit().open("/dead-letters")
    group = page.locator(".causes .panel", has_text="answered 404")
    expect(group).to_contain_text("always-404")
    page.get_by_label("Choose the run of always-404").first.check()
    page.get_by_role("button", name="Redrive the chosen").click()
    expect(page.get_by_role("dialog")).to_contain_text("Redrive 1 run?")
    confirm(page, "Redrive")
    expect(page.locator("#notes")).to_contain_text("1 run will run again.")
    page.reload()
    group.get_by_role("button", name="Redrive these").click()
    confirm(page, "Redrive")
    expect(page.locator("#notes")).to_contain_text("will run again.")


@pytest.mark.parametrize(
    ("place", "title"),
    [
        ("/workers", "Workers"),
        ("/nodes", "Nodes and shards"),
        ("/tenants", "Tenants"),
        ("/tenants/default", "Tenant “default”"),
        ("/audit-log", "Audit log"),
        ("/objectives", "Objectives"),
        ("/notifications", "Notifications"),
        ("/new", "New job"),
        ("/nowhere", "There is no such page"),
        ("/jobs/job_x", "There is no such thing"),
        ("/jobs/%E0", "There is no such page"),
        ("/runs/%", "There is no such page"),
        ("/jobs/a%2Fb", "There is no such thing"),
        ("/jobs/..%2F..%2Fhealthz", "There is no such thing"),
        ("/jobs/%3Fx", "There is no such thing"),
    ],
)
def test_every_address_opens_a_page(visit: Visiting, place: str, title: str) -> None:
    page = visit().open(place)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page).to_have_title(f"{title} · Tickwheel")


def test_a_page_that_is_gone_to_is_read_from_its_heading(visit: Visiting) -> None:
    page = visit().open("/")
    expect(page.get_by_role("heading", level=1)).not_to_be_focused()
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_limits_of_a_tenant_are_set_and_told(visit: Visiting) -> None:
    page = visit().open("/tenants/acme")
    page.get_by_role("button", name="Change limits").click()
    page.get_by_role("dialog").get_by_label("max jobs").fill("500")
    confirm(page, "Save")
    expect(page.locator("main .facts")).to_contain_text("max jobs 500")
    expect(page.locator("main")).to_contain_text("0 of 500")


def test_somebody_is_told_when_a_run_gives_up(server: ServerProcess, visit: Visiting) -> None:
    page = visit().open("/notifications")
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("ops")
    page.get_by_label("To", exact=True).fill(f"{server.url}/echo")
    page.get_by_label("a job has failed several times in a row").check()
    page.get_by_label("by an objective of this tenant").check()
    page.get_by_label("Failures in a row").fill("5")
    page.get_by_label("Signing secret").fill("none-of-that-name")
    confirm(page, "Save")
    expect(page.locator("#notes")).to_contain_text("names the signing secret 'none-of-that-name'")
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("ops")
    page.get_by_label("To", exact=True).fill(f"{server.url}/echo")
    page.get_by_label("by an objective of this tenant").check()
    page.get_by_label("Failures in a row").fill("5")
    confirm(page, "Save")
    row = page.locator("tbody tr", has_text="ops")
    expect(row).to_contain_text("a run is out of attempts")
    expect(row).to_contain_text("messages are not signed")
    with urllib.request.urlopen(f"{server.url}/v1/notifications/ops", timeout=20) as answer:
        made = json.load(answer)
    assert (made["failures"], made["events"]) == (5, ["run.dead_lettered", "objective.burning"])
    row.get_by_role("button", name="Try it").click()
    expect(page.locator("#notes")).to_contain_text("The trial message arrived.")
    row.get_by_role("button", name="Delete").click()
    confirm(page, "Delete the rule")
    expect(page.locator("main")).to_contain_text("Nobody is told yet")
    page.get_by_role("button", name="Undo").click()
    expect(row).to_be_visible()


def test_colours_are_chosen_and_kept(visit: Visiting) -> None:
    page = visit().open("/jobs")

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert paper() == "rgb(247, 248, 250)"
    page.get_by_role("button", name="Colours: auto").click()
    page.get_by_role("button", name="Colours: light").click()
    assert paper() == "rgb(16, 20, 27)"
    page.reload()
    page.locator("main h1").wait_for()
    assert paper() == "rgb(16, 20, 27)"
