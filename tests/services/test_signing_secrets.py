"""Signing secrets: made, rotated with an overlap, forgotten; never shown again."""

import hashlib
from collections.abc import Sequence

import pytest

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from tickwheel.domain.sealed import is_sealed, key_id_of
from tickwheel.domain.signing_key import SCHEME, parse_secret, secret_text
from tickwheel.ports.registry import SIGNING_SECRET, Act
from tickwheel.ports.vault import CannotSign
from tickwheel.services.signing_secrets import OVERLAP_SECONDS, SigningSecrets
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

from .memory_registry import MemoryRegistry

OLD = SecretKey("old", hashlib.sha256(b"old").digest())
NEW = SecretKey("new", hashlib.sha256(b"new").digest())
INSTALLATION = b"the key of the installation itself"
OWN = secret_text(b"a value that somebody has already")
ACT = Act("key:abc", "secret.create", "10.0.0.1")
DAY_MS = OVERLAP_SECONDS * 1000


class Desk:
    """One node of two that share a registry."""

    def __init__(self, other: "Desk | None" = None, keys: Sequence[SecretKey] = (OLD,)) -> None:
        self.registry: MemoryRegistry = MemoryRegistry() if other is None else other.registry
        self.clock: VirtualClock = VirtualClock() if other is None else other.clock
        randomness = SeededRandomness(1 if other is None else 2)
        self.secrets = SigningSecrets(self.registry, KeyVault(keys), self.clock, randomness, [INSTALLATION])

    async def raw(self) -> str:
        records = await self.registry.records(SIGNING_SECRET)
        return f"{records} {self.registry.entries}"


async def test_a_secret_is_random_or_given_and_signs_at_once() -> None:
    desk = Desk()
    made = await desk.secrets.create("acme", "billing", act=ACT)
    given = await desk.secrets.create("acme", "default", OWN, act=ACT)
    assert made.value.startswith(SCHEME)
    assert given.value == OWN
    assert desk.secrets.keys_for("acme", "billing") == [parse_secret(made.value)]
    assert desk.secrets.keys_for("acme", "") == [parse_secret(OWN)]
    assert desk.secrets.knows("acme", "billing")
    assert not desk.secrets.knows("other", "billing")


async def test_without_a_default_the_installation_signs() -> None:
    desk = Desk()
    assert list(desk.secrets.keys_for("acme", "")) == [INSTALLATION]
    assert list(desk.secrets.values_for("acme", "")) == []  # it does not travel
    with pytest.raises(CannotSign, match="there is no signing secret 'billing'"):
        desk.secrets.keys_for("acme", "billing")


async def test_the_store_and_the_audit_log_hold_no_value() -> None:
    desk = Desk()
    first = await desk.secrets.create("acme", "billing", act=ACT)
    second = await desk.secrets.rotate("acme", "billing", act=ACT)
    raw = await desk.raw()
    for value in (first.value, second.value):
        assert value.removeprefix(SCHEME) not in raw
        assert value.removeprefix(SCHEME) not in str(await desk.secrets.list("acme"))
    assert [entry.action for entry in desk.registry.entries] == ["secret.create"] * 2


async def test_the_key_before_signs_along_until_the_overlap_is_over() -> None:
    desk = Desk()
    first = await desk.secrets.create("acme", "billing", act=ACT)
    second = await desk.secrets.rotate("acme", "billing", act=ACT)
    both = [parse_secret(second.value), parse_secret(first.value)]
    assert desk.secrets.keys_for("acme", "billing") == both
    desk.clock.step_ms(DAY_MS - 1)
    assert desk.secrets.keys_for("acme", "billing") == both
    desk.clock.step_ms(1)
    assert desk.secrets.keys_for("acme", "billing") == both[:1]
    (view,) = await desk.secrets.list("acme")
    assert [key.until_ms for key in view.keys] == [None]


async def test_two_rotations_at_once_give_the_first_key_up() -> None:
    desk = Desk()
    values = [(await desk.secrets.create("acme", "billing", act=ACT)).value]
    values += [(await desk.secrets.rotate("acme", "billing", act=ACT)).value for _ in range(2)]
    assert desk.secrets.values_for("acme", "billing") == [values[2], values[1]]


async def test_without_an_overlap_the_key_before_is_gone_at_once() -> None:
    desk = Desk()
    await desk.secrets.create("acme", "billing", act=ACT)
    second = await desk.secrets.rotate("acme", "billing", OWN, overlap_ms=0, act=ACT)
    assert second.value == OWN
    assert desk.secrets.values_for("acme", "billing") == [OWN]


async def test_another_node_follows() -> None:
    desk = Desk()
    other = Desk(desk)
    made = await desk.secrets.create("acme", "billing", act=ACT)
    assert not other.secrets.knows("acme", "billing")
    await other.secrets.refresh()
    assert other.secrets.values_for("acme", "billing") == [made.value]
    rotated = await other.secrets.rotate("acme", "billing", act=ACT)
    again = await desk.secrets.rotate("acme", "billing", act=ACT)  # of what is stored, not of what is known here
    assert desk.secrets.values_for("acme", "billing") == [again.value, rotated.value]
    await other.secrets.delete("acme", "billing", act=ACT)
    await desk.secrets.refresh()
    assert not desk.secrets.knows("acme", "billing")


async def test_what_can_not_be_made_or_found_is_told() -> None:
    desk = Desk()
    await desk.secrets.create("acme", "billing", act=ACT)
    with pytest.raises(Conflict, match="rotate it"):
        await desk.secrets.create("acme", "billing", act=ACT)
    with pytest.raises(InvalidRequest, match="name"):
        await desk.secrets.create("acme", "a/b", act=ACT)
    with pytest.raises(InvalidRequest, match="value") as caught:
        await desk.secrets.create("acme", "other", "whsec_c2hvcnQ=", act=ACT)
    assert "c2hvcnQ" not in str(caught.value)
    for secret_of in ("other", "acme"):
        name = "billing" if secret_of == "other" else "none"
        with pytest.raises(NotFound):
            await desk.secrets.rotate(secret_of, name, act=ACT)
        with pytest.raises(NotFound):
            await desk.secrets.delete(secret_of, name, act=ACT)


async def test_what_was_written_is_told_though_it_can_not_be_read_again() -> None:
    desk = Desk()
    version = desk.registry.records_version

    async def away() -> int:
        raise StoreUnavailable("away")

    desk.registry.records_version = away  # type: ignore[method-assign] # for this one call
    made = await desk.secrets.create("acme", "billing", act=ACT)
    desk.registry.records_version = version  # type: ignore[method-assign] # as it was
    await desk.secrets.refresh()
    assert desk.secrets.values_for("acme", "billing") == [made.value]


async def test_a_missing_key_of_the_vault_is_told_and_mends_itself() -> None:
    desk = Desk()
    made = await desk.secrets.create("acme", "billing", act=ACT)
    keyless, keyed = Desk(desk, [NEW]), Desk(desk, [NEW, OLD])
    for node in (keyless, keyed):
        await node.secrets.refresh()
    with pytest.raises(CannotSign, match=r"signing secret 'billing' can't be opened: .*'old'") as caught:
        keyless.secrets.keys_for("acme", "billing")
    assert caught.value.retryable
    assert keyed.secrets.values_for("acme", "billing") == [made.value]
    with pytest.raises(CannotSign):
        await keyless.secrets.reseal(ACT)
    assert (await keyed.secrets.reseal(ACT), await keyed.secrets.reseal(ACT)) == (1, 0)
    await keyless.secrets.refresh()
    assert keyless.secrets.values_for("acme", "billing") == [made.value]


async def test_the_key_of_another_tenant_or_name_does_not_open_in_its_place() -> None:
    desk = Desk()
    await desk.secrets.create("acme", "billing", act=ACT)
    (record,) = await desk.registry.records(SIGNING_SECRET)
    assert is_sealed(record.body.split('"sealed":"')[1])
    assert key_id_of(record.body.split('"sealed":"')[1]) == "old"
    for tenant_id, name in (("evil", "billing"), ("acme", "mine")):
        moved = type(record)(SIGNING_SECRET, tenant_id, name, record.body)
        await desk.registry.put_record(moved, ACT, expected_version=0, shown="[]")
        await desk.secrets.refresh()
        with pytest.raises(CannotSign):
            desk.secrets.keys_for(tenant_id, name)
