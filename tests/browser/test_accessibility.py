"""Every page, checked by axe-core in both colours, and on a phone's width."""

import pytest

pytest.importorskip("axe_playwright_python", reason="axe is not installed (it comes with `make test`)")

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types

from tickwheel import Client

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .browsing import Visiting

pytestmark = pytest.mark.slow
PLACES = (
    "/",
    "/upcoming",
    "/jobs",
    "/jobs/{job}",
    "/jobs/{job}/edit",
    "/new",
    "/runs/{run}",
    "/dead-letters",
    "/objectives",
    "/notifications",
    "/workers",
    "/nodes",
    "/tenants",
    "/tenants/default",
    "/audit-log",
    "/nowhere",
)
LONG = "a-very-long-name-" * 11


@pytest.fixture(scope="module")
def things(server: ServerProcess) -> dict[str, str]:
    """A job with a long name, one of whose runs has failed, and a crowd at the hour."""
    client: Client = server.client
    job = client.schedule(
        job_name=LONG,
        schedule_type="CRON",
        cron_expression="0 4 1 1 *",
        timezone="Europe/Berlin",
        tags=["finance", "x" * 60],
        retry_policy={"max_retries": 0},
        payload={"text": "y" * 400},
        target={"endpoint": f"{server.url}/none?{'q' * 300}"},
    )
    run = client.trigger(job.job_id)
    wait_until(lambda: client.get_run(run.run_id).status == "FAILED", why="the run has failed")
    for _ in range(25):
        client.schedule(
            schedule_type="CRON", cron_expression="0 * * * *", target={"endpoint": f"{server.url}/echo"}
        )
    return {"job": job.job_id, "run": run.run_id}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing(visit: Visiting, things: dict[str, str], place: str, dark: bool) -> None:
    page = visit(dark=dark).open(place.format(**things))
    page.locator(".loading").first.wait_for(state="detached")
    found = Axe().run(page).response["violations"]
    told = [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    assert not told


@pytest.mark.parametrize("width", [1280, 360])
def test_a_form_with_all_that_can_be_in_it(visit: Visiting, things: dict[str, str], width: int) -> None:
    page = visit(width=width).open("/jobs/{job}/edit".format(**things))
    page.get_by_text("More:").click()
    page.get_by_role("button", name="Add a header").click()
    page.get_by_role("button", name="Add a limit").click()
    page.get_by_label("Calls").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".field .problem", has_text="Calls is needed").wait_for()
    found = Axe().run(page).response["violations"]
    assert not [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("place", PLACES)
def test_a_phone_needs_no_sideways_scrolling(visit: Visiting, things: dict[str, str], place: str) -> None:
    page = visit(width=360, height=740).open(place.format(**things))
    page.locator(".loading").first.wait_for(state="detached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_keyboard_reaches_everything_in_order(visit: Visiting, things: dict[str, str]) -> None:
    page = visit().open("/jobs")
    page.keyboard.press("Tab")
    reached = []
    for _ in range(40):
        reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        page.keyboard.press("Tab")
    assert reached[0] == "Skip to the content"
    assert (
        reached.index("Overview") < reached.index("Audit log") < reached.index("New job") < reached.index("Search")
    )
