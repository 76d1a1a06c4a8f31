"""Two nodes on one database: what is told to one holds on the other, and roles can be split."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import tickwheel
from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, QuotaExceeded, StoreUnavailable
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import JobState
from tickwheel.domain.quotas import TenantLimits, TenantSettings
from tickwheel.domain.run import RunState
from tickwheel.ports.registry import Act
from tickwheel.wiring import Node, open_node
from tickwheel.wiring import node as node_module

from .nodes import TENANT, Nodes, create, each_second, eventually, fired, fired_again, held_by, runs_of, settled

ACT = Act("test", "tenant.put")


@pytest.mark.slow
@pytest.mark.pitfall(83)
async def test_a_pause_through_one_node_holds_on_the_other_and_after_a_restart(blank_postgresql: str) -> None:
    """Nothing is notified: the claim itself looks at the job, so a pause that was answered holds at once (E1)."""
    async with Nodes(blank_postgresql) as nodes:
        asked, firing = await nodes.open(), await nodes.open()
        await settled(asked, firing)
        paused, running = await each_second(firing, "paused"), await each_second(firing, "running")
        assert {shard_of(paused), shard_of(running)} <= set(held_by(firing))
        await fired_again(asked, paused, 2)
        await asked.jobs.pause(TENANT, paused)
        at_ms = asked.clock.now_ms()
        await fired_again(asked, running, 4)
        assert [instant for instant in await fired(asked, paused) if instant > at_ms] == []
        await nodes.stop(firing)
        await nodes.stop(asked)
        again = await nodes.open()
        await fired_again(again, running, 3)
        assert (await again.jobs.get(TENANT, paused)).job.state is JobState.PAUSED
        assert [instant for instant in await fired(again, paused) if instant > at_ms] == []


@pytest.mark.pitfall(85)
def test_nothing_waits_for_a_notification() -> None:
    """A notification per insert would serialise commits on the server; the feed polls instead."""
    folder = Path(tickwheel.__file__).parent
    files = [path for path in folder.rglob("*") if path.suffix in (".py", ".sql")]
    assert any(path.name == "feed.py" for path in files)
    wanted = re.compile(r"\bpg_notify\b|^\s*(LISTEN|NOTIFY)\s+\w+", re.MULTILINE)
    assert [path.name for path in files if wanted.search(path.read_text("utf-8"))] == []


@pytest.mark.slow
@pytest.mark.pitfall(85)
async def test_five_thousand_single_creates_of_a_hundred_clients_arrive(blank_postgresql: str) -> None:
    async with Nodes(blank_postgresql) as nodes:
        first, second = await nodes.open(), await nodes.open()

        async def client(number: int) -> list[bytes]:
            node = (first, second)[number % 2]
            return [await create(node, schedule_type="DELAYED", delay_seconds=3_600) for _ in range(50)]

        answered = [job_id for ids in await asyncio.gather(*map(client, range(100))) for job_id in ids]
        assert len(set(answered)) == 5_000
        with psycopg.connect(nodes.store) as connection:
            stored = {row[0].bytes for row in connection.execute("SELECT job_id FROM tickwheel.jobs")}
        assert stored == set(answered)


async def test_a_node_of_the_api_alone_owns_nothing_and_its_jobs_run_elsewhere(blank_postgresql: str) -> None:
    async with Nodes(blank_postgresql) as nodes:
        api, firing = await nodes.open(roles=("api",)), await nodes.open(roles=("scheduler", "worker"))
        assert api.serves_api
        assert not firing.serves_api
        assert api.scheduler is None
        job_id = await create(api, schedule_type="INSTANT")

        async def ended() -> bool:
            return [run.state for run in await runs_of(api, job_id)] == [RunState.FAILED] or (
                await api.jobs.get(TENANT, job_id)
            ).last_run is not None

        await eventually(ended, "the run of a job that the API node took")
        assert len(held_by(firing)) == 256
        assert held_by(api) == ()


async def test_nodes_of_the_api_alone_share_the_rate_of_a_tenant(blank_postgresql: str) -> None:
    """With one that fires and serves the API as well they are three; one that only fires does not count."""
    limits = TenantLimits(requests_per_second=1, requests_burst=90)
    async with Nodes(blank_postgresql) as nodes:
        alone = await nodes.open(roles=("api",))
        await alone.tenancy.tenants.put("acme", TenantSettings(limits), ACT)
        serving = [alone, await nodes.open(roles=("api",)), await nodes.open()]
        firing = await nodes.open(roles=("scheduler", "worker"))

        async def known() -> bool:
            return all(len(node.lookout.pulse.nodes()) == 4 for node in (*serving, firing))

        await eventually(known, "all know each other")

        async def counted_in() -> bool:
            for node in serving:
                node.tenancy.quotas.check_request("somebody")
            return [node.tenancy.quotas._parts for node in serving] == [3, 3, 3]

        await eventually(counted_in, "each takes a third")
        assert all(30 <= admitted(node) <= 33 for node in serving)


def admitted(node: Node) -> int:
    """How many of a hundred requests that come at once the tenant may make here."""
    count = 0
    for _ in range(100):
        with suppress(QuotaExceeded):
            node.tenancy.quotas.check_request("acme")
            count += 1
    return count


async def test_a_node_that_stops_leaves_its_shards_to_the_other_at_once(blank_postgresql: str) -> None:
    async with Nodes(blank_postgresql) as nodes:
        staying, leaving = await nodes.open(), await nodes.open()
        await settled(staying, leaving)
        await nodes.stop(leaving)

        async def all_held() -> bool:
            return len(held_by(staying)) == 256

        await eventually(all_held, "the shards of the node that left")


@pytest.mark.parametrize(("wrong_ms", "words"), [(10_200, "10.2 s ahead of"), (-10_200, "10.2 s behind")])
async def test_a_node_whose_clock_is_ten_seconds_off_does_not_start(
    blank_postgresql: str, monkeypatch: pytest.MonkeyPatch, wrong_ms: int, words: str
) -> None:
    class Wrong(SystemClock):
        def wall_ms(self) -> int:
            return super().wall_ms() + wrong_ms

    monkeypatch.setattr(node_module, "SystemClock", Wrong)
    with pytest.raises(ConfigError, match=f"this machine's clock is {words}"):
        await open_node(Settings(store=blank_postgresql, port=0))


async def test_reads_go_to_the_address_for_reads_and_the_rest_to_the_store(blank_postgresql: str) -> None:
    async with Nodes(blank_postgresql) as nodes:
        node = await nodes.open(store_reads="postgresql://127.0.0.1:1/nowhere")
        job_id = await create(node, schedule_type="DELAYED", delay_seconds=3_600)
        with pytest.raises(StoreUnavailable):
            await node.jobs.get(TENANT, job_id)


@pytest.mark.pitfall(46)
async def test_a_clock_that_goes_wrong_later_makes_its_node_give_its_shards_away(
    blank_postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Nodes(blank_postgresql) as nodes:
        wrong_ms = 0

        class Drifting(SystemClock):
            def wall_ms(self) -> int:
                return super().wall_ms() + wrong_ms

        healthy = await nodes.open()
        with monkeypatch.context() as patched:
            patched.setattr(node_module, "SystemClock", Drifting)
            drifting = await nodes.open()
        await settled(healthy, drifting)
        wrong_ms = 120_000

        async def given_away() -> bool:
            return len(held_by(healthy)) == 256 and not held_by(drifting)

        await eventually(given_away, "an unfit node owns nothing, and nobody healthy is declared dead")
        assert "120.0 s ahead of the database's" in drifting.unfit_reason()
        assert healthy.unfit_reason() == ""
        shown = drifting.metrics.render().decode().partition("\ntickwheel_clock_difference_seconds ")[2]
        assert float(shown.split()[0]) == pytest.approx(120, abs=0.5)
