"""Secrets of webhooks on their way to workers over HTTP: opened for them, and for nobody else."""

import hashlib
from typing import Any

import msgspec
import pytest

from tickwheel.adapters.pull.wire import PollAnswer
from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.run import RunState
from tickwheel.domain.signing_key import parse_secret
from tickwheel.interfaces.http.worker_bodies import WebhookBody
from tickwheel.ports.registry import Act

from .pull_world import PullWorld

KEY = SecretKey("k1", hashlib.sha256(b"k1").digest())
OTHER = SecretKey("k2", hashlib.sha256(b"k2").digest())
SECRET = "Bearer s3cret-word"
ACT = Act("somebody", "secret.create")


async def open_world(*keys: SecretKey) -> PullWorld:
    """The first node has `KEY`, the other one these."""
    return await PullWorld(vaults=(KeyVault([KEY]), KeyVault(keys))).open()


async def make(world: PullWorld, **target: Any) -> None:
    target = {"endpoint": "https://example.com/x", "headers": {"Authorization": SECRET}, **target}
    reply = await world.client.post("/v1/jobs", {"schedule_type": "INSTANT", "target": target})
    assert reply.status == 201, reply.body
    await world.clock.advance(100)


async def webhook_polls(world: PullWorld, **fields: Any) -> dict[str, Any]:
    return await world.take(webhooks=True, handlers=[], **fields)


async def test_a_worker_gets_header_values_in_the_clear() -> None:
    world = await open_world(OTHER)
    await make(world)
    [run] = (await webhook_polls(world))["runs"]
    assert run["target"]["headers"] == {"Authorization": SECRET}
    assert (await world.stored(run["run_id"])).state is RunState.RUNNING
    await world.close()


@pytest.mark.parametrize("keys", [(), (OTHER,)])
async def test_a_node_without_the_key_ends_the_attempt_to_be_tried_again(keys: tuple[SecretKey, ...]) -> None:
    world = await open_world(*keys)
    await make(world, signing_secret=None)
    answer = await webhook_polls(world, client=world.other)
    assert answer["runs"] == []
    await world.clock.advance(100)
    [job] = (await world.client.get("/v1/jobs")).json["jobs"]
    [run] = (await world.client.get(f"/v1/jobs/{job['job_id']}/runs")).json["runs"]
    shown = await world.run(run["run_id"])
    assert (shown["status"], shown["attempt"]) == ("SCHEDULED", 1)
    assert "the header Authorization can't be opened: it is sealed under the key 'k1'" in str(shown)
    # It mends itself where the key is known.
    await world.clock.advance(60_000)
    [run] = (await webhook_polls(world, me=answer["worker_id"]))["runs"]
    assert (run["attempt"], run["target"]["headers"]) == (2, {"Authorization": SECRET})
    await world.close()


async def test_a_worker_gets_the_keys_of_the_tenant_to_sign_with() -> None:
    world = await open_world(KEY)
    secrets = world.signing_secrets  # of the other node
    first = await secrets.create("default", "billing", act=ACT)
    second = await secrets.rotate("default", "billing", act=ACT)
    await world.signing_secrets.refresh()
    target = {"endpoint": "https://example.com/x", "signing_secret": "billing"}
    reply = await world.other.post("/v1/jobs", {"schedule_type": "INSTANT", "target": target})
    assert reply.status == 201, reply.body
    await world.clock.advance(100)
    raw = (await world.poll(world.other, webhooks=True, handlers=[])).body
    [run] = msgspec.json.decode(raw, type=PollAnswer).runs
    assert run.target is not None
    assert run.target.signing_secrets == [second.value, first.value]
    given = run.assignment(0)
    assert given.signing_keys == (parse_secret(second.value), parse_secret(first.value))
    shown = f"{given!r} {run!r}"
    assert first.value not in shown
    assert repr(parse_secret(first.value)) not in shown
    await world.close()


async def test_what_a_worker_gets_is_not_shown_in_the_clear() -> None:
    body = WebhookBody("https://a.example", "POST", {"Authorization": SECRET}, ["whsec_abc"])
    assert SECRET not in repr(body)
    assert "whsec" not in repr(body)
