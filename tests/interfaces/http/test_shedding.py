"""429 over HTTP: for new jobs only, with the reason and when to come again."""

import pytest

from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.services.shedding import Behind, Shedding

from .world import HttpWorld, one_off


def crowd(world: HttpWorld) -> None:
    """Let it refuse new jobs: the ends of attempts are not stored any more."""
    world.deps.jobs.shed_by(
        Shedding(clock=world.clock, events=world.events, uncommitted=lambda: 99_999, behind=Behind)
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/batch"),
        ("POST", "/v1/jobs/schedule"),
        ("PUT", "/v1/jobs/by-name/report"),
    ],
)
async def test_new_jobs_are_refused_with_the_reason(world: HttpWorld, method: str, path: str) -> None:
    crowd(world)
    reply = await world.client.request(method, path, one_off())
    assert (reply.status, reply.code) == (429, "overloaded")
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["content-type"] == "application/problem+json"
    assert "too many ends of attempts wait to be stored" in reply.json["detail"]


async def test_body_of_a_refused_request_is_not_parsed(world: HttpWorld) -> None:
    crowd(world)
    assert (await world.client.post("/v1/jobs", {"nonsense": 1})).status == 429


async def test_reads_cancels_and_health_are_answered(world: HttpWorld) -> None:
    job = await world.create()
    crowd(world)
    assert (await world.client.get("/v1/jobs")).status == 200
    assert (await world.get(job["job_id"])).status == 200
    assert (await world.client.post(f"/v1/jobs/{job['job_id']}/trigger")).status == 429
    assert (await world.client.post(f"/v1/jobs/{job['job_id']}/cancel")).status == 200
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await world.client.get(path)).status == 200


async def test_job_says_why_its_due_run_waits(world: HttpWorld) -> None:
    world.behave = lambda work: Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the connection was refused")
    jobs = [await world.create(schedule_type="INSTANT") for _ in range(30)]
    await world.clock.advance(8_500)
    reasons = [(await world.get(job["job_id"])).json["waits_for"] for job in jobs]
    assert set(reasons) == {"failing", None}  # of some the retry is not due yet
    world.behave = lambda work: OK
    await world.clock.advance(60_000)
    assert {(await world.get(job["job_id"])).json["waits_for"] for job in jobs} == {None}
    await world.close()
