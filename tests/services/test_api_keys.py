"""API keys: found by their secret, narrowed, rotated, expired and revoked; on two nodes of one store."""

import json

import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.access import ANONYMOUS, ROLE_SCOPES, STATIC_TOKEN, Role, Scope
from tickwheel.domain.api_keys import parse_key
from tickwheel.domain.errors import InvalidRequest, NotFound, StoreUnavailable
from tickwheel.ports.registry import API_KEY, Act, AuditLogQuery
from tickwheel.ports.tokens import TokenRefused
from tickwheel.services.api_keys import ApiKeys
from tickwheel.services.authentication import Authentication
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

ACT = Act("token", "token.create", "192.0.2.1")


class Nodes:
    """Two nodes of one store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.keys = ApiKeys(self.store, self.clock, SeededRandomness(1))
        self.others = ApiKeys(self.store, self.clock, SeededRandomness(2))
        self.authentication = Authentication(self.clock, tokens=["static-token-0123456"], keys=self.keys)
        self.elsewhere = Authentication(self.clock, keys=self.others, required=True)

    async def make(self, role: Role = Role.READER, tenant_id: str = "acme", **more: object) -> tuple[str, str]:
        issued = await self.keys.create(role=role, tenant_id=tenant_id, act=ACT, **more)  # type: ignore[arg-type]
        return issued.view.key_id, issued.text


async def refused(authentication: Authentication, text: str) -> bool:
    if authentication.recall(text.encode()) is not None:
        return False
    try:
        await authentication.find(text.encode())
    except TokenRefused:
        return True
    return False


def asks(authentication: Authentication) -> bool:
    return authentication.required


async def test_a_key_is_its_role_and_its_tenant() -> None:
    nodes = Nodes()
    key_id, text = await nodes.make()
    who = await nodes.authentication.find(text.encode())
    assert (who.name, who.tenant_id, who.scopes) == (f"key:{key_id}", "acme", ROLE_SCOPES[Role.READER])
    _, everywhere = await nodes.make(Role.ADMIN, "")
    assert (await nodes.authentication.find(everywhere.encode())).tenant_id is None


async def test_scopes_narrow_a_role_and_never_widen_it() -> None:
    nodes = Nodes()
    _, text = await nodes.make(Role.OPERATOR, scopes=[Scope.RUNS_WRITE])
    assert (await nodes.authentication.find(text.encode())).scopes == {Scope.RUNS_WRITE}
    with pytest.raises(InvalidRequest, match=r"scopes: the role reader does not have jobs:write"):
        await nodes.make(Role.READER, scopes=[Scope.JOBS_WRITE])


async def test_the_store_and_the_audit_log_never_hold_the_secret() -> None:
    nodes = Nodes()
    key_id, text = await nodes.make(label="orders")
    secret = (parse_key(text) or ("", ""))[1]
    await nodes.keys.rotate("acme", key_id, 0, Act("token", "token.rotate"))
    [record] = await nodes.store.records(API_KEY)
    page = await nodes.store.audit_log(AuditLogQuery(tenant_id=None))
    assert [entry.action for entry in page.items] == ["token.rotate", "token.create"]
    assert json.loads(page.items[-1].after or "")["label"] == "orders"
    assert len(secret) == 32
    assert secret not in record.body + repr(page)


async def test_a_wrong_secret_of_a_known_id_is_refused() -> None:
    nodes = Nodes()
    _, text = await nodes.make()
    for wrong in (
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        text[:-1],
        text + "a",
        text.upper(),
        "tw__",
        "tw_a_b",
    ):
        assert await refused(nodes.authentication, wrong)
    assert not await refused(nodes.authentication, text)


async def test_a_revoked_key_is_refused_here_at_once_and_elsewhere_when_it_has_looked() -> None:
    nodes = Nodes()
    key_id, text = await nodes.make()
    await nodes.others.refresh()
    assert not await refused(nodes.authentication, text)
    assert not await refused(nodes.elsewhere, text)
    await nodes.keys.revoke("acme", key_id, ACT)
    assert await refused(nodes.authentication, text)
    await nodes.others.refresh()
    assert await refused(nodes.elsewhere, text)


async def test_an_expired_key_is_refused_though_it_was_remembered() -> None:
    nodes = Nodes()
    _, text = await nodes.make(expires_ms=nodes.clock.now_ms() + 60_000)
    assert not await refused(nodes.authentication, text)
    await nodes.clock.advance(59_999)
    assert not await refused(nodes.authentication, text)
    await nodes.clock.advance(1)
    assert await refused(nodes.authentication, text)


async def test_what_takes_long_can_ask_whether_its_token_still_holds() -> None:
    nodes = Nodes()
    now_ms = nodes.clock.now_ms()
    key_id, text = await nodes.make()
    _, brief = await nodes.make(expires_ms=now_ms + 10_000)
    holds = nodes.authentication.still_holds
    for token in (text, brief):
        await nodes.authentication.find(token.encode())
        assert holds(token.encode())
    assert holds(b"static-token-0123456")
    assert not holds(b"another")
    assert not holds(b"\xff\x00")
    await nodes.clock.advance(10_000)
    assert not holds(brief.encode())
    await nodes.keys.revoke("acme", key_id, ACT)
    assert not holds(text.encode())
    nodes.authentication.ask(when_set_up=False)
    assert holds(text.encode()), "an open server lets everybody go on"


async def test_after_a_rotation_both_secrets_hold_until_the_grace_time_is_over() -> None:
    nodes = Nodes()
    key_id, old = await nodes.make()
    new = (await nodes.keys.rotate("acme", key_id, 60_000, ACT)).text
    assert old != new
    for text in (old, new):
        assert not await refused(nodes.authentication, text)
    await nodes.clock.advance(60_000)
    assert await refused(nodes.authentication, old)
    assert not await refused(nodes.authentication, new)


async def test_a_new_secret_is_told_though_the_store_goes_away_after_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else somebody who rotates once more would lose the secret that is in use, without any grace."""
    nodes = Nodes()
    key_id, _ = await nodes.make()

    async def away() -> int:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(nodes.store, "records_version", away)
        new = (await nodes.keys.rotate("acme", key_id, 60_000, ACT)).text
        _, another = await nodes.make()
    await nodes.keys.refresh()
    assert not await refused(nodes.authentication, new)
    assert not await refused(nodes.authentication, another)


async def test_another_tenants_keys_are_not_found() -> None:
    nodes = Nodes()
    key_id, _ = await nodes.make()
    for verb in (
        nodes.keys.get("other", key_id),
        nodes.keys.rotate("other", key_id, 0, ACT),
        nodes.keys.revoke("other", key_id, ACT),
    ):
        with pytest.raises(NotFound):
            await verb
    assert await nodes.keys.list("other") == []
    assert [view.key_id for view in await nodes.keys.list(None)] == [key_id]


async def test_when_a_key_was_used_last_is_written_once_in_a_while() -> None:
    nodes = Nodes()
    key_id, text = await nodes.make()
    await nodes.authentication.find(text.encode())
    await nodes.clock.advance(5_000)
    assert nodes.authentication.recall(text.encode()) is not None
    assert (await nodes.keys.get("acme", key_id)).used_ms == nodes.clock.now_ms()
    version = await nodes.store.records_version()
    await nodes.keys.flush_uses()
    [record] = await nodes.store.records(API_KEY)
    assert record.used_ms == nodes.clock.now_ms()
    assert await nodes.store.records_version() == version


async def test_the_first_key_closes_an_open_server_for_good() -> None:
    """Whoever makes a key means it; nobody would think of a restart."""
    nodes = Nodes()
    opened, never = (Authentication(nodes.clock, keys=nodes.keys) for _ in range(2))
    opened.ask(when_set_up=True)
    never.ask(when_set_up=False)
    assert not asks(opened)
    assert await opened.find(b"anything") == ANONYMOUS
    key_id, text = await nodes.make()
    assert asks(opened)
    assert not asks(never)
    with pytest.raises(TokenRefused):
        await opened.find(b"anything")
    assert (await opened.find(text.encode())).tenant_id == "acme"
    await nodes.keys.revoke("acme", key_id, ACT)
    assert asks(opened)
    with pytest.raises(TokenRefused):
        await opened.find(text.encode())


async def test_a_static_token_is_everybody_and_an_open_server_lets_strangers_in() -> None:
    nodes = Nodes()
    assert await nodes.authentication.find(b"static-token-0123456") == STATIC_TOKEN
    opened = Authentication(nodes.clock, keys=nodes.keys)
    assert not opened.required
    assert await opened.find(b"anything") == ANONYMOUS
    _, text = await nodes.make()
    assert (await opened.find(text.encode())).tenant_id == "acme"
