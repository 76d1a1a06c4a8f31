"""Secrets of targets: sealed before the store sees them, and bound to the server that they were given for."""

import hashlib
import json
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.errors import IdempotencyConflict, InvalidRequest, SecretStays, TickwheelError
from tickwheel.domain.job import Target, encode_spec
from tickwheel.domain.requests.definition import REDACTED
from tickwheel.domain.sealed import header_context, is_sealed, key_id_of
from tickwheel.ports.vault import CannotOpen
from tickwheel.services.jobs import PutOutcome
from tickwheel.services.sealing import Sealing, resealed

from .desk import TENANT, Desk

OLD = SecretKey("old", hashlib.sha256(b"old").digest())
NEW = SecretKey("new", hashlib.sha256(b"new").digest())
SECRET = "Bearer s3cret-word"
MINUTELY = {"schedule_type": "CRON", "cron_expression": "* * * * *"}


def webhook(endpoint: str = "https://a.example/x", **headers: str) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"endpoint": endpoint, "headers": given or {"Authorization": SECRET, "Content-Type": "text/plain"}}


def sealing_desk(*keys: SecretKey) -> Desk:
    desk = Desk()
    desk.jobs.seal_by(Sealing(KeyVault(keys or [OLD])))
    return desk


async def stored(desk: Desk, job_id: bytes) -> Target:
    target = (await desk.view(job_id)).job.spec.target
    assert SECRET not in encode_spec((await desk.view(job_id)).job.spec).decode()
    return target


def opened(target: Target, *keys: SecretKey, tenant_id: str = TENANT) -> dict[str, str]:
    vault = KeyVault(keys or [OLD])
    return {
        name: vault.open(value, header_context(tenant_id, target.endpoint, name)) for name, value in target.headers
    }


async def test_the_store_sees_sealed_values_and_plain_harmless_ones() -> None:
    desk = sealing_desk()
    target = await stored(desk, await desk.once(60_000, target=webhook()))
    headers = dict(target.headers)
    assert key_id_of(headers["Authorization"]) == "old"
    assert headers["Content-Type"] == "text/plain"
    assert opened(target)["Authorization"] == SECRET


async def test_each_way_to_make_a_job_seals() -> None:
    desk = sealing_desk()
    body = {"schedule_type": "DELAYED", "delay_seconds": 60, "target": webhook()}
    many = await desk.jobs.create_many([json.dumps(body).encode()] * 40)
    assert not any(isinstance(one, TickwheelError) for one in many)
    ids = [one.job_id for one in many if not isinstance(one, TickwheelError)]
    ids.append((await desk.put("named", **MINUTELY, target=webhook())).view.job.job_id)
    bare = await desk.once(60_000)
    ids.append((await desk.edit(bare, target=webhook())).job.job_id)
    ids.append((await desk.jobs.trigger(TENANT, ids[0])).job_id)
    for job_id in ids:
        assert opened(await stored(desk, job_id))["Authorization"] == SECRET


async def test_a_repeated_request_is_the_same_one_also_under_another_key() -> None:
    desk = sealing_desk()
    request = {"schedule_type": "DELAYED", "delay_seconds": 60, "idempotency_key": "k", "target": webhook()}
    first = await desk.create(**request)
    desk.jobs.seal_by(Sealing(KeyVault([NEW, OLD])))
    second = await desk.create(**request)
    assert (second.job_id, second.replayed) == (first.job_id, True)
    with pytest.raises(IdempotencyConflict):
        await desk.create(**request | {"target": webhook(Authorization="another")})


async def test_a_repeated_trigger_is_the_same_one_also_after_resealing() -> None:
    desk = sealing_desk()
    job_id = await desk.once(60_000, target=webhook())
    first = await desk.jobs.trigger(TENANT, job_id, "again")
    both = KeyVault([NEW, OLD])
    desk.jobs.seal_by(Sealing(both))
    patch = {"target": {"headers": {"Authorization": None}}}
    await desk.edit(job_id, **patch)
    await desk.edit(job_id, target={"headers": {"Authorization": SECRET}})
    assert key_id_of(dict((await stored(desk, job_id)).headers)["Authorization"]) == "new"
    # The order of headers is a part of a request, so the second one is put as the first one was.
    await desk.edit(job_id, target={"headers": {"Content-Type": None}})
    await desk.edit(job_id, target={"headers": {"Content-Type": "text/plain"}})
    again = await desk.jobs.trigger(TENANT, job_id, "again")
    assert (again.job_id, again.replayed) == (first.job_id, True)


async def test_putting_the_same_definition_changes_nothing_also_under_another_key() -> None:
    desk = sealing_desk()
    first = await desk.put("sync", **MINUTELY, target=webhook())
    again = await desk.put("sync", **MINUTELY, target=webhook())
    desk.jobs.seal_by(Sealing(KeyVault([NEW, OLD])))
    rotated = await desk.put("sync", **MINUTELY, target=webhook())
    marked = await desk.put("sync", **MINUTELY, target=webhook(Authorization=REDACTED, Content_Type=REDACTED))
    assert [put.outcome for put in (again, rotated, marked)] == [PutOutcome.UNCHANGED] * 3
    assert marked.view.job.spec == first.view.job.spec
    other = await desk.put("sync", **MINUTELY, target=webhook(Authorization="Bearer other"))
    assert other.outcome is PutOutcome.CHANGED
    assert key_id_of(dict(other.view.job.spec.target.headers)["Authorization"]) == "new"


async def test_a_plain_value_of_before_is_sealed_when_it_is_put_again() -> None:
    desk = Desk()
    plain = await desk.put("sync", **MINUTELY, target=webhook())
    assert dict(plain.view.job.spec.target.headers)["Authorization"] == SECRET
    desk.jobs.seal_by(Sealing(KeyVault([OLD])))
    sealed = await desk.put("sync", **MINUTELY, target=webhook())
    assert sealed.outcome is PutOutcome.CHANGED
    assert opened(await stored(desk, sealed.view.job.job_id))["Authorization"] == SECRET
    assert (await desk.put("sync", **MINUTELY, target=webhook())).outcome is PutOutcome.UNCHANGED


async def test_an_edit_keeps_what_it_does_not_name() -> None:
    desk = sealing_desk()
    job_id = await desk.once(60_000, target=webhook())
    before = await stored(desk, job_id)
    await desk.edit(job_id, priority="LOW", target={"headers": {"X-New": "n3w"}})
    target = await stored(desk, job_id)
    assert target.headers[:2] == before.headers
    assert opened(target) == {"Authorization": SECRET, "Content-Type": "text/plain", "X-New": "n3w"}
    await desk.edit(job_id, target={"endpoint": "https://a.example/other", "method": "PUT"})
    assert opened(await stored(desk, job_id))["Authorization"] == SECRET


@pytest.mark.pitfall(103)
@pytest.mark.parametrize("sealed", [True, False])
async def test_whoever_may_edit_a_job_can_not_have_its_secrets_sent_elsewhere(sealed: bool) -> None:
    desk = sealing_desk() if sealed else Desk()
    job_id = await desk.once(60_000, target=webhook())
    await desk.put("sync", **MINUTELY, target=webhook())
    evil = "https://evil.example/collect"
    for target in (
        {"endpoint": evil},
        {"endpoint": evil, "headers": {"Authorization": REDACTED}},
        {"endpoint": "http://a.example/x"},
        {"endpoint": "https://a.example:444/x"},
    ):
        with pytest.raises(SecretStays, match="Authorization"):
            await desk.edit(job_id, target=target)
    with pytest.raises(SecretStays, match="Authorization"):
        await desk.put("sync", **MINUTELY, target=webhook(evil, Authorization=REDACTED))
    assert (await desk.view(job_id)).job.version == 1
    moved = await desk.edit(job_id, target={"endpoint": evil, "headers": {"Authorization": "mine"}})
    assert dict(moved.job.spec.target.headers)["Content-Type"] == "text/plain"
    if sealed:
        assert opened(moved.job.spec.target)["Authorization"] == "mine"


@pytest.mark.pitfall(103)
async def test_a_sealed_text_that_was_seen_somewhere_can_not_be_sent_back_as_ones_own() -> None:
    desk = sealing_desk()
    target = await stored(desk, await desk.once(60_000, target=webhook()))
    stolen = dict(target.headers)["Authorization"]
    with pytest.raises(InvalidRequest, match="Authorization"):
        await desk.once(60_000, target=webhook("https://evil.example", Authorization=stolen))
    moved = replace(target, endpoint="https://evil.example/collect")
    with pytest.raises(CannotOpen):
        opened(moved)
    with pytest.raises(CannotOpen):
        opened(target, tenant_id="other")


async def test_a_mark_without_a_stored_value_makes_no_job() -> None:
    desk = sealing_desk()
    with pytest.raises(InvalidRequest, match="none is stored"):
        await desk.once(60_000, target=webhook(Authorization=REDACTED))
    with pytest.raises(InvalidRequest, match="none is stored"):
        await desk.put("sync", **MINUTELY, target=webhook(Authorization=REDACTED))


async def test_a_signing_secret_has_to_be_there() -> None:
    known = {(TENANT, "billing")}
    desk = Desk()
    desk.jobs.seal_by(Sealing(knows_signing_secret=lambda tenant_id, name: (tenant_id, name) in known))
    billing = webhook() | {"signing_secret": "billing"}
    job_id = await desk.once(60_000, target=billing)
    with pytest.raises(InvalidRequest, match=r"target\.signing_secret: names the signing secret 'other'"):
        await desk.once(60_000, target=webhook() | {"signing_secret": "other"})
    with pytest.raises(InvalidRequest, match="'other'"):
        await desk.edit(job_id, target={"signing_secret": "other"})
    known.clear()
    await desk.edit(job_id, priority="LOW")  # it goes on as it was: its runs say what is wrong


async def test_sealing_anew_leaves_nothing_under_an_old_key() -> None:
    desk = sealing_desk()
    target = await stored(
        desk, await desk.once(60_000, target=webhook(Authorization=SECRET, X_Empty="", Accept="a"))
    )
    anew = resealed(KeyVault([NEW, OLD]), TENANT, target)
    assert [key_id_of(value) for _, value in anew.headers if is_sealed(value)] == ["new"]
    assert opened(anew, NEW) == {"Authorization": SECRET, "X-Empty": "", "Accept": "a"}
    assert resealed(KeyVault([NEW]), TENANT, anew) is anew
    plain = replace(target, headers=(("Authorization", SECRET),))
    assert opened(resealed(KeyVault([NEW]), TENANT, plain), NEW) == {"Authorization": SECRET}
    with pytest.raises(CannotOpen):
        resealed(KeyVault([NEW]), TENANT, target)
