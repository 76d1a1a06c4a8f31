"""What the overview, the workers and the jobs say when something waits, and of whom."""

import re
from importlib.resources import files
from typing import cast, get_type_hints

import pytest
from playwright.sync_api import expect

from tickwheel.interfaces.client.job_fields import JobFields
from tickwheel.interfaces.http.job_views import JobBody

from ..interfaces.cli.server_process import ServerProcess
from .browsing import Visiting, make
from .test_access import Guarded, guarded, signed_in

__all__ = ["guarded"]

pytestmark = pytest.mark.slow
NOBODY = "http://127.0.0.1:1/"  # nothing listens there


def test_runs_that_wait_for_a_dead_host_are_overdue_and_the_host_is_named(
    server: ServerProcess, visit: Visiting
) -> None:
    made = [
        server.client.schedule(
            cast(
                JobFields,
                {"target": {"endpoint": NOBODY}, "schedule_type": "INSTANT", "retry_policy": {"max_retries": 9}},
            )
        ).job_id
        for _ in range(40)
    ]
    page = visit().open("/")
    expect(page.locator(".verdict").first).to_contain_text("the host 127.0.0.1:1, which gives no answer")
    expect(page.locator(".verdict.warn").first.get_by_role("link", name="Jobs that wait")).to_be_visible()
    expect(page.locator(".card", has_text="oldest due").locator("b")).not_to_have_text("–")
    expect(page.get_by_role("region", name="What runs wait for")).to_contain_text("the host 127.0.0.1:1")
    expect(page.locator(".verdict").last).to_contain_text(re.compile("Late: .*: its host gives no answer"))
    expect(page.locator(".heatstrip")).to_be_visible()
    for job_id in made:
        server.client.delete(job_id)


def test_the_overview_says_whose_numbers_they_are(server: ServerProcess, visit: Visiting) -> None:
    make(server, "theirs", tenant_id="acme")
    page = visit().open("/?tenant=acme")
    expect(page.locator("main")).to_contain_text("All tenants together:")
    expect(page.get_by_role("heading", name="The next hour, all tenants")).to_be_visible()
    expect(page.get_by_role("heading", name="Tenant acme")).to_be_visible()
    expect(page.locator(".verdict").last).to_contain_text("On time: no job is overdue.")
    page = visit().open("/?tenant=nobody")
    expect(page.locator("main")).to_contain_text("The tenant nobody has no jobs.")
    page = visit().open("/jobs?tenant=nobody")
    expect(page.locator("main")).to_contain_text("The tenant nobody has no jobs.")


def test_known_tenants_are_offered(server: ServerProcess, visit: Visiting) -> None:
    server.request("PUT", "/v1/tenants/known-one", {"limits": {"max_jobs": 5}}, {})
    page = visit().open("/")
    page.get_by_label("Tenant whose jobs are shown").focus()
    expect(page.locator("#tenants option[value=known-one]")).to_have_count(1)


def test_a_key_of_one_tenant_is_told_how_its_own_jobs_do(guarded: Guarded, visit: Visiting) -> None:
    guarded.job("ours-in-time", "acme")
    page = signed_in(visit, guarded, guarded.key("reader", "acme")).page
    expect(page.locator(".verdict")).to_have_count(1)
    expect(page.locator(".verdict")).to_contain_text(
        "On time: no job is overdue. No run gave up in the last hour."
    )
    expect(page.locator("main")).to_contain_text("This is about the jobs of your tenant.")
    expect(page.locator("main [role=alert]")).to_have_count(0)


def test_a_handler_that_nobody_has_is_named(server: ServerProcess, visit: Visiting) -> None:
    page = visit().open("/workers")
    expect(page.locator("main")).to_contain_text("No worker lives elsewhere, and none is needed.")
    fields = {"target": {"type": "HANDLER", "name": "send-nowhere"}, "schedule_type": "INSTANT"}
    job_id = server.client.schedule(cast(JobFields, fields)).job_id
    expect(page.locator("main")).to_contain_text("No server or worker has the handler send-nowhere.")
    expect(page.locator("main")).to_contain_text("1 due run waits for workers elsewhere")
    expect(page.locator("main")).not_to_contain_text("themselves")
    server.client.delete(job_id)


def test_the_list_of_jobs_is_fresh_and_stays_where_it_is(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "fresh-one")
    page = visit().open("/jobs?q=fresh-")
    row = page.locator("tbody tr")
    expect(row.locator("td").nth(1)).to_contain_text("scheduled")
    server.client.pause(job_id)
    expect(row.locator("td").nth(1)).to_contain_text("paused")
    page.get_by_label("Search").fill("half typ")
    make(server, "fresh-two")
    news = page.get_by_role("button", name="1 new: show")
    expect(news).to_be_visible()
    expect(row).to_have_count(1)
    expect(page.get_by_label("Search")).to_have_value("half typ")
    news.click()
    expect(row).to_have_count(2)
    expect(news).to_have_count(0)


def test_there_are_words_for_every_reason_to_wait() -> None:
    script = files("tickwheel.interfaces.http").joinpath("assets/parts.js").read_text()
    found = re.search(r"const WAITS = \{(.*?)\};", script, re.DOTALL)
    assert found is not None
    (described,) = get_type_hints(JobBody, include_extras=True)["waits_for"].__metadata__
    assert set(re.findall(r"^  (\w+):", found[1], re.M)) == set(re.findall(r"`(\w+)`", described.description))
