"""Pages of the audit log: filters, cursors, tenants, retention."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.errors import BadCursor
from tickwheel.ports.audit_log_pages import BUDGET
from tickwheel.ports.registry import AuditEntry, AuditLogPage, AuditLogQuery

from .desk import Desk


def subjects(entries: Iterable[AuditEntry]) -> list[str]:
    return [entry.subject for entry in entries]


async def fill(desk: Desk) -> None:
    """Twelve entries, one a second, of two tenants and of two who act."""
    for n in range(12):
        action = ("job.create", "job.edit", "token.create")[n % 3]
        await desk.note(action, tenant_id="ab"[n % 2], actor=("key:alice", "anonymous")[n // 6], subject=f"s{n}")
        desk.clock.step_ms(1_000)


async def test_entries_come_back_newest_first_as_they_were_noted(desk: Desk) -> None:
    assert await desk.entries() == []
    entry = AuditEntry(0, desk.now_ms - 7, "a", "ä:\u2028", "::1", "sign_in.refuse", "x", '{"b": "ü"}', "[1]")
    await desk.store.append_entries([entry, replace(entry, at_ms=desk.now_ms, before=None, after=None)])
    await desk.store.append_entries([])
    await desk.store.append_entries([replace(entry, at_ms=0, subject="now")])
    newest, second, first = await desk.entries()
    assert (newest.at_ms, newest.subject) == (desk.now_ms, "now")
    assert (second.at_ms, second.before, second.after) == (desk.now_ms, None, None)
    assert first == replace(entry, number=first.number)
    assert 0 < first.number < second.number < newest.number
    await desk.arena.restart()
    assert await desk.entries() == [newest, second, first]


@pytest.mark.parametrize("limit", [1, 2, 5, 500])
async def test_filters_combine(desk: Desk, limit: int) -> None:
    await fill(desk)

    async def found(**filters: Any) -> list[int]:
        return [int(entry.subject[1:]) for entry in await desk.entries(limit=limit, **filters)]

    first_ms = desk.now_ms - 12_000
    assert await found() == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert await found(action="job.edit") == [10, 7, 4, 1]
    assert await found(action="job.create") == [9, 6, 3, 0]
    assert await found(action="job.") == [10, 9, 7, 6, 4, 3, 1, 0]
    assert await found(action="token.") == [11, 8, 5, 2]
    assert await found(action="token") == []
    assert await found(actor="anonymous") == [11, 10, 9, 8, 7, 6]
    assert await found(actor="anonymous", tenant_id="b") == [11, 9, 7]
    assert await found(actor="key:alice", tenant_id="b", action="job.") == [3, 1]
    assert await found(subject="s7") == [7]
    assert await found(subject="s7", tenant_id="a") == []
    assert await found(tenant_id="a", from_ms=first_ms + 2_000, to_ms=first_ms + 8_000) == [6, 4, 2]
    assert await found(action="job.create", from_ms=first_ms + 3_000) == [9, 6, 3]
    assert await found(action="token.", to_ms=first_ms + 5_000) == [2]
    assert await found(action="token.", tenant_id="b", to_ms=first_ms + 5_001) == [5]


async def test_no_page_of_a_tenant_has_an_entry_of_another(desk: Desk) -> None:
    await fill(desk)
    filters: tuple[dict[str, Any], ...] = (
        {},
        {"action": "job."},
        {"action": "token."},
        {"actor": "key:alice"},
        {"actor": "anonymous"},
    )
    for tenant_id in ("a", "b", "", "c"):
        for more in (*filters, *({"subject": f"s{n}"} for n in range(12))):
            found = await desk.entries(tenant_id, limit=2, **more)
            assert {entry.tenant_id for entry in found} <= {tenant_id}
    assert {entry.tenant_id for entry in await desk.entries(None)} == {"a", "b"}


async def test_a_cursor_goes_on_where_the_page_ended_whatever_was_added(desk: Desk) -> None:
    await fill(desk)
    page = await desk.store.audit_log(AuditLogQuery(None, 4))
    assert subjects(page.items) == ["s11", "s10", "s9", "s8"]
    await desk.note("job.create", "job.edit", subject="later")
    late = AuditEntry(0, page.items[-1].at_ms - 1, "a", "key:alice", "", "job.edit", "committed late")
    await desk.store.append_entries([late])  # an older instant, a higher number: its transaction took long
    page = await desk.store.audit_log(AuditLogQuery(None, 4, after=page.next_cursor))
    assert subjects(page.items) == ["committed late", "s7", "s6", "s5"]
    await desk.store.trim_audit_log(page.items[-1].at_ms - 1_000, 2)
    page = await desk.store.audit_log(AuditLogQuery(None, 4, after=page.next_cursor))
    assert subjects(page.items) == ["s4", "s3", "s2"]
    assert page.next_cursor is None


async def test_no_entry_is_lost_where_a_page_ends_within_an_instant(desk: Desk) -> None:
    await desk.note(*["job.create"] * 300, subject="one")
    await desk.note(*["job.edit"] * 300, subject="two")
    for limit in (1, 7, 250, 600):
        entries = (
            await desk.entries(limit=limit) if limit > 1 else await desk.entries(action="job.edit", limit=100)
        )
        assert len(entries) == (600 if limit > 1 else 300)
        assert [entry.number for entry in entries] == sorted((e.number for e in entries), reverse=True)


async def test_a_page_looks_at_a_bounded_number_of_entries(desk: Desk) -> None:
    await desk.note("job.create", actor="anonymous", subject="first")
    desk.clock.step_ms(1)
    for _ in range(3):
        await desk.note(*["job.create"] * (BUDGET // 2), actor="anonymous", subject="many")
        desk.clock.step_ms(1)
    page = await desk.store.audit_log(AuditLogQuery("a", subject="many", action="token."))
    assert page.items == ()
    assert page.next_cursor is not None, "it gave up before the end"
    assert await desk.entries("a", subject="many", action="token.") == []
    assert subjects(await desk.entries("a", subject="first", actor="anonymous")) == ["first"]


async def test_what_is_rare_is_found_at_once_among_very_many(desk: Desk) -> None:
    await desk.note("token.create", tenant_id="b", subject="old")
    desk.clock.step_ms(1)
    for n in range(2):
        await desk.note(*["job.create"] * BUDGET, tenant_id="ab"[n], actor="anonymous", subject="many")
        desk.clock.step_ms(1)
    for query in (
        AuditLogQuery(None, action="token."),
        AuditLogQuery("b", action="token.create"),
        AuditLogQuery("b", subject="old"),
        AuditLogQuery("b", actor="key:alice"),
        AuditLogQuery(None, to_ms=desk.now_ms - 2),
    ):
        page = await desk.store.audit_log(query)
        assert (subjects(page.items), page.next_cursor) == (["old"], None), query
    # An actor that all tenants share is looked for among what the tenant has.
    assert await desk.store.audit_log(AuditLogQuery("c", actor="anonymous")) == AuditLogPage((), None)


async def test_long_entries_make_a_page_short(desk: Desk) -> None:
    long = AuditEntry(0, 0, "a", "key:alice", "", "job.create", "9999 jobs", None, '"' + "x" * 1_500_000 + '"')
    await desk.store.append_entries([long] * 4)
    page = await desk.store.audit_log(AuditLogQuery("a", 50))
    assert len(page.items) == 2
    assert len(await desk.entries("a")) == 4
    await desk.store.append_entries([replace(long, after='"' + "x" * 5_000_000 + '"')])
    assert len((await desk.store.audit_log(AuditLogQuery("a", 50))).items) == 1, "one at least"


async def test_a_cursor_of_another_list_is_refused(desk: Desk) -> None:
    await fill(desk)
    page = await desk.store.audit_log(AuditLogQuery("a", 2))
    for query in (AuditLogQuery("b", 2), AuditLogQuery(None, 2), AuditLogQuery("a", 2, action="job.")):
        with pytest.raises(BadCursor):
            await desk.store.audit_log(replace(query, after=page.next_cursor))
    for cursor in ("", "x", "ä", "e30"):
        with pytest.raises(BadCursor):
            await desk.store.audit_log(AuditLogQuery("a", 2, after=cursor))


async def test_old_entries_go_a_piece_at_a_time(desk: Desk) -> None:
    await fill(desk)
    before_ms = desk.now_ms - 5_000
    assert [await desk.store.trim_audit_log(before_ms, 3) for _ in range(4)] == [3, 3, 1, 0]
    assert subjects(await desk.entries()) == ["s11", "s10", "s9", "s8", "s7"]
    last = (await desk.entries())[0].number
    assert await desk.store.trim_audit_log(desk.now_ms, 100) >= 4
    assert await desk.store.trim_audit_log(desk.now_ms, 100) == 0
    assert len(await desk.entries()) <= 1
    await desk.note("job.create")
    assert (await desk.entries())[0].number > last, "no number is given twice"
