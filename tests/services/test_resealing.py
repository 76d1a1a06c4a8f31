"""Sealing what is stored anew: nothing is left under an old key, nothing that was edited meanwhile is undone."""

import hashlib
from collections.abc import Sequence
from typing import Any

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.sealed import header_context, key_id_of
from tickwheel.ports.registry import Act, AuditLogQuery
from tickwheel.ports.specs import SpecChange, SpecPiece, SpecStore
from tickwheel.services.resealing import Resealed, Resealing
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.testing.seeded_randomness import SeededRandomness

from .desk import TENANT, Desk

OLD = SecretKey("old", hashlib.sha256(b"old").digest())
NEW = SecretKey("new", hashlib.sha256(b"new").digest())
ACT = Act("cli:somebody", "secret.reseal")
ENDPOINT = "https://a.example/x"
DAY_MS = 86_400_000


def webhook(value: str = "s3cret") -> dict[str, Any]:
    return {"endpoint": ENDPOINT, "headers": {"Authorization": value, "Accept": "text/plain"}}


def signing(desk: Desk, *keys: SecretKey) -> SigningSecrets:
    return SigningSecrets(desk.store, KeyVault(keys), desk.clock, SeededRandomness(len(keys)))


async def sealed_desk(*keys: SecretKey, jobs: int = 3) -> Desk:
    """A store with some jobs and a signing secret under the first key; in the clear without keys."""
    desk = Desk()
    desk.jobs.seal_by(Sealing(KeyVault(keys)))
    for _ in range(jobs):
        await desk.once(60_000, target=webhook())
    await signing(desk, *keys).create(TENANT, "billing", act=Act("somebody", "secret.create"))
    return desk


async def reseal(desk: Desk, *keys: SecretKey, specs: Any = None, seen: list[int] | None = None) -> Resealed:
    counts: list[int] = [] if seen is None else seen
    resealing = Resealing(specs or desk.store, desk.store, KeyVault(keys), signing(desk, *keys), ACT)
    return await resealing.run(counts.append)


async def key_ids(desk: Desk) -> set[str]:
    """Of the keys that headers are sealed under; the text itself where one is not sealed."""
    piece = await desk.store.specs_with_headers(b"", 1_000)
    views = [await desk.store.get_job(one.tenant_id, one.job_id) for one in piece.specs]
    values = [dict(view.job.spec.target.headers)["Authorization"] for view in views if view is not None]
    return {key_id_of(value) for value in values}


async def test_everything_goes_under_the_first_key_and_stays_there() -> None:
    desk, seen = await sealed_desk(OLD), list[int]()
    assert await reseal(desk, NEW, OLD, seen=seen) == Resealed(3, 3, 1, 0, ())
    assert (await key_ids(desk), sum(seen)) == ({"new"}, 3)
    assert await reseal(desk, NEW) == Resealed(3, 0, 0, 0, ())
    secrets = signing(desk, NEW)
    await secrets.refresh()
    assert len(secrets.values_for(TENANT, "billing")) == 1


async def test_what_was_stored_in_the_clear_is_sealed() -> None:
    desk = await sealed_desk()
    assert await key_ids(desk) == {"s3cret"}
    assert await reseal(desk, NEW) == Resealed(3, 3, 1, 0, ())
    assert await key_ids(desk) == {"new"}


async def test_what_can_not_be_opened_is_named_and_left() -> None:
    desk = await sealed_desk(OLD)
    desk.jobs.seal_by(Sealing(KeyVault([NEW])))
    await desk.once(60_000, target=webhook())
    done = await reseal(desk, NEW)
    assert (done.jobs_seen, done.jobs_sealed, done.secrets_sealed, done.left_count) == (4, 0, 0, 4)
    assert all("sealed under the key 'old'" in line for line in done.left)
    assert "signing secret 'billing'" in done.left[-1]
    assert await key_ids(desk) == {"old", "new"}


async def test_an_old_key_of_a_signing_secret_whose_time_is_over_keeps_nothing_back() -> None:
    desk = await sealed_desk(OLD, jobs=0)
    await signing(desk, NEW, OLD).rotate(TENANT, "billing", act=ACT)
    assert (await reseal(desk, NEW)).left_count == 1
    desk.clock.step_ms(DAY_MS)
    assert await reseal(desk, NEW) == Resealed(0, 0, 1, 0, ())


async def test_the_audit_log_says_how_many_once() -> None:
    desk = await sealed_desk(OLD)
    await reseal(desk, NEW, OLD)
    await reseal(desk, NEW, OLD)
    entries = (await desk.store.audit_log(AuditLogQuery(None, action="secret.reseal"))).items
    assert [(entry.tenant_id, entry.subject) for entry in entries] == [
        (TENANT, "signing_secret:billing"),
        ("", "3 jobs"),
    ]


class EditsBetween:
    """A store in which somebody edits the first job between the read and the write of its first piece."""

    def __init__(self, store: SpecStore, desk: Desk, job_id: bytes) -> None:
        self._store, self._desk, self._job_id, self._edits = store, desk, job_id, 1

    async def specs_with_headers(self, after: bytes, limit: int) -> SpecPiece:
        return await self._store.specs_with_headers(after, limit)

    async def replace_specs(self, changes: Sequence[SpecChange]) -> int:
        if self._edits:
            self._edits = 0
            await self._desk.edit(self._job_id, target={"headers": {"Authorization": "edited"}})
        return await self._store.replace_specs(changes)


async def test_an_edit_in_between_is_kept_and_sealed_by_the_next_lap() -> None:
    desk = await sealed_desk(OLD)
    job_id = await desk.once(60_000, target=webhook())
    done = await reseal(desk, NEW, OLD, specs=EditsBetween(desk.store, desk, job_id))
    assert (done.jobs_seen, done.jobs_sealed, done.left_count) == (4, 4, 0)
    assert await key_ids(desk) == {"new"}
    value = dict((await desk.view(job_id)).job.spec.target.headers)["Authorization"]
    assert KeyVault([NEW]).open(value, header_context(TENANT, ENDPOINT, "Authorization")) == "edited"
