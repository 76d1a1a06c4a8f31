"""The form of a job: exact payloads, stored headers, all fields, what comes of it, and somebody else's change."""

import re
from importlib.resources import files
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from tickwheel.domain.sealed import HARMLESS_HEADERS

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .browsing import Visiting, make

pytestmark = pytest.mark.slow
EXACT = '{"secret":"pay","n":12345678901234567890,"f":1.0,"e":1E400,"t":"\\u00e9, {","l":[],"o":{}}'
PAYLOAD = re.compile(r'"payload":(.*),"retry_policy":', re.DOTALL)


def raw_payload(server: ServerProcess, job_id: str) -> str:
    """As the server writes it."""
    with urlopen(f"{server.url}/v1/jobs/{job_id}", timeout=20) as answer:
        found = PAYLOAD.search(answer.read().decode())
    assert found is not None
    return found[1]


def with_payload(server: ServerProcess, text: str, name: str = "exact") -> str:
    """A job with this payload, byte for byte; its id."""
    body = (
        f'{{"job_name":"{name}","schedule_type":"CRON","cron_expression":"0 4 1 1 *","payload":{text},'
        f'"target":{{"endpoint":"{server.url}/echo"}}}}'
    )
    request = Request(f"{server.url}/v1/jobs", body.encode(), {"content-type": "application/json"}, method="POST")
    with urlopen(request, timeout=20) as answer:
        found = re.search(r"job_[0-9A-Z]{26}", answer.read().decode())
    assert found is not None
    return found[0]


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("It is saved.")


def stored(server: ServerProcess, job_id: str) -> Any:
    return server.request("GET", f"/v1/jobs/{job_id}", None, {})


def test_an_edit_of_a_payload_leaves_its_numbers_alone(server: ServerProcess, visit: Visiting) -> None:
    job_id = with_payload(server, EXACT)
    page = visit().open(f"/jobs/{job_id}/edit")
    typed = page.get_by_label("Payload")
    shown = typed.input_value()
    assert '"n": 12345678901234567890' in shown
    assert '"f": 1.0' in shown
    typed.fill(shown.replace('"pay"', '"paid"'))
    save(page)
    assert raw_payload(server, job_id) == EXACT.replace('"pay"', '"paid"')
    page.get_by_text("Payload", exact=True).click()
    expect(page.locator("main pre")).to_contain_text('"n": 12345678901234567890')
    expect(page.locator("main pre")).to_contain_text('"e": 1E400')


def test_undo_puts_a_payload_back_byte_for_byte(server: ServerProcess, visit: Visiting) -> None:
    text = '{ "n" : 12345678901234567890,\\n "f":1.0 }'.replace("\\n", "\n")
    job_id = with_payload(server, text)
    page = visit().open(f"/jobs/{job_id}/edit")
    page.get_by_label("Payload").fill("[1.0]")
    save(page)
    assert raw_payload(server, job_id) == "[1.0]"
    page.get_by_text("Payload", exact=True).click()
    expect(page.locator("main pre")).to_have_text("[\n  1.0\n]")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#notes")).to_contain_text("It is undone.")
    assert raw_payload(server, job_id) == text
    page.get_by_text("Payload", exact=True).click()
    expect(page.locator("main pre")).to_contain_text('"n": 12345678901234567890')


def test_a_payload_that_nobody_touched_is_not_sent(server: ServerProcess, visit: Visiting) -> None:
    job_id = with_payload(server, '{ "n" : 1.0 }')
    page = visit().open(f"/jobs/{job_id}/edit")
    page.get_by_label("Name").fill("renamed")
    with page.expect_request(lambda request: request.method == "PATCH") as sent:
        save(page)
    assert sent.value.post_data == '{"job_name":"renamed"}'
    assert raw_payload(server, job_id) == '{ "n" : 1.0 }'


def test_a_result_is_shown_as_it_is_written(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "with-a-result")
    run_id = server.client.trigger(job_id).run_id
    tab = visit()

    def answer(route: Any) -> None:
        body = route.fetch().text()
        assert '"result":' in body
        route.fulfill(body=body.replace('"result":null', f'"result":{EXACT}'))

    tab.page.route(re.compile(rf"/v1/runs/{run_id}$"), answer)
    page = tab.open(f"/runs/{run_id}")
    page.get_by_text("Result", exact=True).click()
    expect(page.locator("main details pre")).to_contain_text('"n": 12345678901234567890')


def with_headers(server: ServerProcess) -> str:
    headers = {"Authorization": "Bearer secret-1", "X-Key": "secret-2", "Content-Type": "text/json"}
    return make(server, "with-headers", target={"endpoint": "http://127.0.0.1:9/old", "headers": headers})


def test_a_job_with_headers_is_moved_to_another_host(server: ServerProcess, visit: Visiting) -> None:
    job_id = with_headers(server)
    page = visit().open(f"/jobs/{job_id}/edit")
    headers = page.get_by_role("group", name="Headers")
    assert "secret-" not in page.content()
    page.get_by_label("Calls").fill("http://127.0.0.1:9/elsewhere")
    expect(headers).not_to_contain_text("not sent to another host")
    page.get_by_label("Calls").fill("nowhere")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".field", has=page.get_by_label("Calls"))).to_contain_text("Calls must start with http://")
    page.get_by_label("Calls").fill(f"{server.url}/echo")
    expect(headers).to_contain_text("Authorization, X-Key: given for http://127.0.0.1:9, and not sent")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(headers).to_contain_text("give Authorization, X-Key again, or remove them")
    assert stored(server, job_id)["target"]["endpoint"] == "http://127.0.0.1:9/old"
    headers.get_by_label("Value of Authorization").fill("Bearer secret-3")
    headers.get_by_role("button", name="Remove X-Key").click()
    expect(headers).not_to_contain_text("not sent to another host")
    save(page)
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    target = stored(server, job_id)["target"]
    assert target["endpoint"] == f"{server.url}/echo"
    assert set(target["headers"]) == {"Authorization", "Content-Type"}


def test_a_header_is_added_and_that_is_undone(server: ServerProcess, visit: Visiting) -> None:
    job_id = with_headers(server)
    page = visit().open(f"/jobs/{job_id}/edit")
    headers = page.get_by_role("group", name="Headers")
    headers.get_by_role("button", name="Add a header").click()
    headers.get_by_label("Name of a header").fill("host")
    headers.get_by_label("Value", exact=True).fill("example.com")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(headers).to_contain_text("Headers, host: belongs to the connection and can't be set")
    headers.get_by_label("Name of a header").fill("X-More")
    save(page)
    assert "X-More" in stored(server, job_id)["target"]["headers"]
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: "X-More" not in stored(server, job_id)["target"]["headers"], why="taken back")
    assert set(stored(server, job_id)["target"]["headers"]) == {"Authorization", "X-Key", "Content-Type"}


def test_the_form_knows_which_headers_may_move() -> None:
    script = files("tickwheel.interfaces.http").joinpath("assets/edit_controls.js").read_text()
    found = re.search(r"HARMLESS = \[(.*?)\]", script)
    assert found is not None
    assert set(re.findall(r'"([\w-]+)"', found[1])) == HARMLESS_HEADERS


def test_every_field_of_a_job_can_be_changed_and_put_back(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "all-fields", tags=["a", "b,c"], concurrency=[{"scope": "key", "key": "K", "limit": 1}])
    before = stored(server, job_id)
    page = visit().open(f"/jobs/{job_id}/edit")
    page.get_by_text("More:").click()
    for label, value in {
        "Timeout of an attempt": "7.5",
        "Longest wait before the first retry": "2",
        "Factor by which": "3",
        "Longest wait before any retry": "60",
        "At most so many that were missed": "5",
        "Too late after": "90",
        "Not before": "2027-01-01T00:00:00Z",
        "Not at or after": "2031-01-01T00:00:00Z",
        "At most waiting": "4",
    }.items():
        page.get_by_label(label).fill(value)
    for label, value in {
        "Priority": "HIGH",
        "When the last retry has failed": "drop",
        "If one still runs": "skip",
        "After downtime": "fire_all",
    }.items():
        page.get_by_label(label).select_option(value)
    tags = page.get_by_role("group", name="Tags")
    tags.get_by_role("button", name="Remove the tag a").click()
    tags.get_by_label("Another tag").fill("d, e")
    tags.get_by_label("Another tag").press("Enter")
    tags.get_by_label("Another tag").fill("not-added-yet")
    save(page)
    after = stored(server, job_id)
    assert after["target"]["timeout_seconds"] == 7.5
    assert after["retry_policy"] == {
        "max_retries": 3,
        "initial_interval_sec": 2,
        "backoff_multiplier": 3,
        "max_interval_sec": 60,
        "when_exhausted": "drop",
    }
    assert after["catch_up"] == {"policy": "fire_all", "max": 5}
    assert (after["overlap"], after["deadline_seconds"], after["priority"]) == ("skip", 90, "HIGH")
    assert (after["start_at"], after["end_at"]) == ("2027-01-01T00:00:00.000Z", "2031-01-01T00:00:00.000Z")
    assert after["concurrency"] == [{"scope": "key", "key": "K", "limit": 1, "max_waiting": 4}]
    assert after["tags"] == ["b,c", "d, e", "not-added-yet"]
    definition = page.locator(".facts")
    for said in ("7.5 s an attempt", "at most 1 run at a time of jobs with the key K", "skip the next one"):
        expect(definition).to_contain_text(said)
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: stored(server, job_id)["overlap"] == "allow", why="put back")
    same = {name for name in before if name not in ("version", "updated_at")}
    assert {name: stored(server, job_id)[name] for name in same} == {name: before[name] for name in same}


def test_an_untouched_form_differs_in_nothing(server: ServerProcess, visit: Visiting) -> None:
    job_id = with_headers(server)
    page = visit().open(f"/jobs/{job_id}/edit")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Nothing is different.")
    assert stored(server, job_id)["version"] == 1


def test_problems_are_told_at_their_fields_in_their_words(visit: Visiting) -> None:
    page = visit().open("/new")
    page.get_by_text("More:").click()
    page.get_by_label("Longest wait before the first retry").fill("20")
    page.get_by_label("Longest wait before any retry").fill("10")
    page.get_by_label("Too late after").fill("soon")
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_label("Too late after")).to_be_focused()
    expect(page.locator(".field .problem").filter(has_text="must be a number")).to_have_count(1)
    page.get_by_label("Too late after").fill("")
    page.get_by_text("More:").click()
    page.get_by_role("button", name="Make the job").click()
    calls = page.get_by_label("Calls")
    expect(calls).to_be_focused()
    expect(calls).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field", has=calls)).to_contain_text("Calls is needed.")
    assert "target." not in page.inner_text("main")
    calls.fill("http://127.0.0.1:9/x")
    page.get_by_role("button", name="Make the job").click()
    cap = page.get_by_label("Longest wait before any retry")
    expect(cap).to_be_focused()
    expect(page.locator(".field", has=cap)).to_contain_text("must not be below “Longest wait before the first")
    expect(page.locator(".field .problem", has_text="Calls")).to_have_count(0)


def test_a_job_of_a_handler_is_made(server: ServerProcess, visit: Visiting) -> None:
    page = visit().open("/new")
    page.get_by_label("Does").select_option("HANDLER")
    expect(page.get_by_label("Calls")).to_be_hidden()
    page.get_by_label("Handler").fill("reports.nightly")
    page.get_by_label("Payload").fill('{"n": 12345678901234567890}')
    page.get_by_role("button", name="Make the job").click()
    expect(page.locator("#notes")).to_contain_text("It is made.")
    job_id = page.url.rpartition("/")[2]
    assert stored(server, job_id)["target"] == {
        "type": "HANDLER",
        "timeout_seconds": 30,
        "name": "reports.nightly",
    }
    assert raw_payload(server, job_id) == '{"n":12345678901234567890}'


def test_a_move_vanishes_nowhere(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "moved", cron_expression="30 2 * * *", timezone="Europe/Berlin")
    page = visit().open(f"/jobs/{job_id}/edit")
    said = page.locator(".edit section .live")
    for expression in ("0 3 * * *", "0 1 * * *", "15 4 * * *"):
        page.get_by_label("Cron expression").fill(expression)
        expect(said).to_contain_text(re.compile(r"Of the times until .*: \d+ move\."))
        expect(said).to_contain_text(f"{int(expression.split()[1]):02}:{int(expression.split()[0]):02}:00")
    page.get_by_label("Cron expression").fill("*/10 * * * *")
    expect(said).to_contain_text("appear")
    page.get_by_label("Cron expression").fill("30 2 * * *")
    expect(said).to_contain_text("Its times stay as they are.")


def test_times_beyond_the_bounds_are_no_times(server: ServerProcess, visit: Visiting) -> None:
    bounds = {"start_at": "2031-03-01T00:00:00Z", "end_at": "2031-03-04T00:00:00Z"}
    job_id = make(server, "bounded", cron_expression="0 12 * * *", **bounds)
    page = visit().open(f"/jobs/{job_id}/edit")
    said = page.locator(".edit section .live")
    expect(said.locator("li")).to_have_count(3)
    expect(said).to_contain_text("2031-03-01 12:00:00")
    page.get_by_text("More:").click()
    page.get_by_label("Not at or after").fill("2031-03-03T00:00:00Z")
    expect(said).to_contain_text("Of all its times: 1 vanishes, 2 stay.")
    page.get_by_label("Not before").fill("2031-03-01T12:00:00Z")
    expect(said).to_contain_text("Of all its times: 1 vanishes, 2 stay.")
    page.get_by_label("Not before").fill("2031-03-03T00:00:00Z")
    expect(said).to_contain_text("Of all its times: 3 vanish.")
    page.get_by_label("Not before").fill("tomorrow")
    expect(said).to_contain_text("“tomorrow” is no instant.")


def contested(server: ServerProcess, visit: Visiting) -> tuple[str, Page]:
    """Both have changed the name, they the tags, too, and we the payload."""
    job_id = make(server, "contested", payload={"a": 1})
    page = visit().open(f"/jobs/{job_id}/edit")
    server.client.edit(job_id, job_name="theirs", tags=["urgent"])
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Payload").fill('{"a": 2.0}')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".edit [role=alert]")).to_contain_text("Somebody else has changed it")
    table = page.get_by_role("region", name="Differences")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("theirs")
    expect(table).to_contain_text("mine")
    expect(table).to_contain_text("not changed: theirs stays")
    expect(page.get_by_label("Name")).to_have_value("mine")
    assert stored(server, job_id)["job_name"] == "theirs"
    return job_id, page


def test_what_was_typed_is_saved_on_top_of_somebody_elses_change(server: ServerProcess, visit: Visiting) -> None:
    job_id, page = contested(server, visit)
    page.get_by_role("button", name="Save mine on top").click()
    expect(page.locator("#notes")).to_contain_text("It is saved.")
    job = stored(server, job_id)
    assert (job["job_name"], job["tags"]) == ("mine", ["urgent"])
    assert raw_payload(server, job_id) == '{"a":2.0}'


def test_somebody_elses_change_is_taken(server: ServerProcess, visit: Visiting) -> None:
    job_id, page = contested(server, visit)
    page.get_by_role("button", name="Take theirs").click()
    expect(page.get_by_label("Name")).to_have_value("theirs")
    expect(page.get_by_role("group", name="Tags")).to_contain_text("urgent")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Nothing is different.")
    assert stored(server, job_id)["job_name"] == "theirs"


def test_an_undo_overwrites_nobody(server: ServerProcess, visit: Visiting) -> None:
    job_id = make(server, "undone-too-late")
    page = visit().open(f"/jobs/{job_id}/edit")
    page.get_by_label("Name").fill("mine")
    save(page)
    server.client.edit(job_id, job_name="theirs")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".note.bad")).to_contain_text("Somebody else has changed it since")
    assert stored(server, job_id)["job_name"] == "theirs"


def test_a_job_that_runs_once_is_moved(server: ServerProcess, visit: Visiting) -> None:
    at = "2031-01-01T12:00:00Z"
    job_id = make(server, "once", cron_expression=None, schedule_type="ONE_OFF", execute_at=at)
    page = visit().open(f"/jobs/{job_id}/edit")
    expect(page.get_by_label("Cron expression")).to_be_hidden()
    page.get_by_label("Runs at").fill("2031-07-01T12:00:00Z")
    expect(page.locator(".edit section .live")).to_have_text("It runs once, at 2031-07-01 14:00:00 UTC+2.")
    save(page)
    assert stored(server, job_id)["execute_at"] == "2031-07-01T12:00:00.000Z"
