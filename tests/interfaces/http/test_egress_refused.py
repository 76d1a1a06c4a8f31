"""What the egress guard refuses is answered 403, in every way of naming a target."""

from typing import Any

import pytest

from tickwheel.config import Settings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.wiring.executors import target_guard

from .world import ENDPOINT, HttpWorld, one_off

EVIL = {"endpoint": "https://evil.example/hook"}
DETAIL = "evil.example:443 is not on the allow-list of the tenant's egress policy"


def guard(world: HttpWorld) -> None:
    policy = EgressPolicy(allow=("example.com",))
    world.deps.jobs.refuse_by(target_guard(Settings(), lambda tenant_id: policy))


def assert_refused(problem: dict[str, Any]) -> None:
    assert (problem["status"], problem["code"], problem["detail"]) == (403, "egress_refused", DETAIL)


@pytest.mark.pitfall(103)
async def test_target_beside_the_allow_list_is_answered_403(world: HttpWorld) -> None:
    guard(world)
    job_id = (await world.create(target={"endpoint": ENDPOINT}))["job_id"]  # no header that would have to stay
    compact = {"trigger_type": "CRON", "cron_expression": "* * * * *", "target_endpoint": EVIL["endpoint"]}
    for method, path, body in (
        ("POST", "/v1/jobs", one_off(target=EVIL)),
        ("POST", "/v1/jobs/schedule", compact),
        ("PUT", "/v1/jobs/by-name/x", {"schedule_type": "CRON", "cron_expression": "* * * * *", "target": EVIL}),
        ("PATCH", f"/v1/jobs/{job_id}", {"target": EVIL}),
    ):
        reply = await world.client.request(method, path, body)
        assert reply.status == 403, (path, reply.body)
        assert_refused(reply.json)
    batch = await world.client.post("/v1/jobs/batch", [one_off(), one_off(target=EVIL)])
    good, evil = batch.json["results"]
    assert "job_id" in good
    assert_refused(evil)
    assert (await world.get(job_id)).json["target"]["endpoint"] == ENDPOINT


@pytest.mark.pitfall(103)
async def test_job_whose_target_was_taken_off_the_list_can_not_be_triggered(world: HttpWorld) -> None:
    job_id = (await world.create(target=EVIL))["job_id"]
    guard(world)
    reply = await world.client.post(f"/v1/jobs/{job_id}/trigger")
    assert reply.status == 403
    assert_refused(reply.json)
