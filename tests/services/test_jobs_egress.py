"""Targets that a tenant's webhooks may not call are refused when a job is made, put, changed or triggered."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tickwheel.config import Settings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import EgressRefused
from tickwheel.services.jobs import Created
from tickwheel.wiring.executors import target_guard

from .desk import TENANT, Desk

GOOD = {"endpoint": "https://api.example.com/x"}
EVIL = {"endpoint": "https://evil.example/x"}
HANDLER = {"type": "HANDLER", "name": "work"}
LISTED = EgressPolicy(allow=("api.example.com",))


class GuardedDesk(Desk):
    """`policies` can be changed at any time."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self.policies = {TENANT: LISTED}
        self.jobs.refuse_by(target_guard(settings or Settings(), self.policies.get))

    async def stored_count(self) -> int:
        return len(self.owner.armed)


def refused(excinfo: pytest.ExceptionInfo[EgressRefused]) -> str:
    assert excinfo.value.code == "egress_refused"
    return str(excinfo.value)


Steps = Callable[[GuardedDesk], Awaitable[object]]


async def _schedule(desk: GuardedDesk) -> object:
    return await desk.once(60_000, target=EVIL)


async def _recur(desk: GuardedDesk) -> object:
    return await desk.cron("* * * * *", target=EVIL)


async def _put(desk: GuardedDesk) -> object:
    return await desk.put("nightly", schedule_type="CRON", cron_expression="0 3 * * *", target=EVIL)


@pytest.mark.pitfall(103)
@pytest.mark.parametrize("make", [_schedule, _recur, _put])
async def test_target_beside_the_allow_list_is_refused_and_nothing_is_stored(make: Steps) -> None:
    desk = GuardedDesk()
    with pytest.raises(EgressRefused) as excinfo:
        await make(desk)
    assert refused(excinfo) == "evil.example:443 is not on the allow-list of the tenant's egress policy"
    assert await desk.stored_count() == 0
    desk.policies[TENANT] = EgressPolicy(allow=("evil.example",))
    await make(desk)


async def test_one_refused_item_of_a_batch_does_not_fail_the_others() -> None:
    desk = GuardedDesk()
    items = [
        json.dumps({"schedule_type": "DELAYED", "delay_seconds": 60, "target": target}).encode()
        for target in (GOOD, EVIL, HANDLER, {"endpoint": "http://127.0.0.1/"})
    ]
    good, evil, handler, loopback = await desk.jobs.create_many(items)
    assert isinstance(good, Created)
    assert isinstance(handler, Created)
    assert isinstance(evil, EgressRefused)
    assert isinstance(loopback, EgressRefused)


async def test_edit_that_changes_the_target_is_refused_and_changes_nothing() -> None:
    desk = GuardedDesk()
    job_id = await desk.cron("* * * * *", target=GOOD)
    with pytest.raises(EgressRefused) as excinfo:
        await desk.edit(job_id, target=EVIL, cron_expression="0 * * * *")
    assert "evil.example:443" in refused(excinfo)
    view = await desk.view(job_id)
    assert (view.job.version, view.job.spec.cron, view.job.spec.target.endpoint) == (
        1,
        "* * * * *",
        GOOD["endpoint"],
    )


@pytest.mark.pitfall(103)
async def test_after_the_list_was_narrowed_a_job_can_be_edited_but_neither_triggered_nor_put() -> None:
    """An edit of something else must stay possible: to slow down or lead away what can't succeed any more."""
    desk = GuardedDesk()
    put = await desk.put("nightly", schedule_type="CRON", cron_expression="0 3 * * *", target=GOOD)
    job_id = put.view.job.job_id
    await desk.jobs.trigger(TENANT, job_id)
    desk.policies[TENANT] = EgressPolicy(allow=("other.example",))
    with pytest.raises(EgressRefused):
        await desk.jobs.trigger(TENANT, job_id)
    with pytest.raises(EgressRefused):
        await desk.put("nightly", schedule_type="CRON", cron_expression="0 3 * * *", target=GOOD)
    await desk.edit(job_id, cron_expression="0 4 * * *")
    await desk.edit(job_id, target={"endpoint": "https://other.example/"})
    await desk.jobs.trigger(TENANT, job_id)


async def test_policy_of_one_tenant_is_none_of_anothers() -> None:
    desk = GuardedDesk()
    await desk.create(tenant_id="other", schedule_type="DELAYED", delay_seconds=60, target=EVIL)
    await desk.once(60_000, target=HANDLER)


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("http://127.0.0.1:8080/", "a loopback address (setting allow_loopback is off)"),
        ("http://10.0.0.1/", "a private address (not listed in setting allow_private)"),
        ("http://169.254.169.254/", "a cloud metadata address"),
        ("http://metadata.google.internal/", "the name of a cloud metadata service"),
        ("http://localhost/", "a loopback address"),
        ("http://2130706433/", "an IPv4 address in an odd form"),
        ("http://api.example.com:6379/", "port 6379 may not be called (not listed in setting webhook_ports)"),
    ],
)
async def test_what_the_guard_would_refuse_at_any_time_is_refused_at_once(endpoint: str, text: str) -> None:
    desk = GuardedDesk()
    desk.policies.clear()
    with pytest.raises(EgressRefused) as excinfo:
        await desk.once(60_000, target={"endpoint": endpoint})
    assert text in refused(excinfo)


async def test_node_that_calls_nobody_leaves_its_settings_out_of_it() -> None:
    """Workers elsewhere may reach what this node may not; tenants' policies are the same for all."""
    desk = GuardedDesk(replace(Settings(), roles=("api", "scheduler")))
    desk.policies.clear()
    for endpoint in ("http://127.0.0.1:8080/", "http://10.0.0.1:6379/", "http://localhost/"):
        await desk.once(60_000, target={"endpoint": endpoint})
    with pytest.raises(EgressRefused):
        await desk.once(60_000, target={"endpoint": "http://metadata.google.internal/"})
    desk.policies[TENANT] = LISTED
    with pytest.raises(EgressRefused):
        await desk.once(60_000, target={"endpoint": "http://10.0.0.1/"})
