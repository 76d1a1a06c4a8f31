"""What is gathered is told once: whatever happens in between, the counts of the messages add up."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.notifications.groups import (
    EXAMPLE_COUNT,
    FIRST_PAUSE_MS,
    GIVE_UP_MS,
    LONGEST_PAUSE_MS,
    Example,
    Group,
)
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.messages import NAME_CHARS, compose, one_line
from tickwheel.domain.notifications.rule import NotificationRule, Webhook, address_fault

RULE = NotificationRule(events=(Kind.DEAD_LETTERED,), webhook=Webhook("https://ops.example"))
BLANK = Group(Kind.DEAD_LETTERED, "report", "default")
QUIET_MS = 60_000
STEPS = st.lists(st.one_of(st.sampled_from(["heard", "delivered", "failed"]), st.integers(0, 90_000)), max_size=60)


def message(group: Group, rule: NotificationRule = RULE, url: str = "") -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(compose("default", "ops", rule, group, url).body)
    return body


@given(STEPS)
def test_counts_of_messages_add_up(steps: list[str | int]) -> None:
    group, now_ms, heard, told = BLANK, 1_000_000, 0, 0
    began: list[int] = []
    for step in steps:
        if isinstance(step, int):
            now_ms += step
        elif step == "heard":
            group, heard = group.heard(Example(now_ms)), heard + 1
        elif group.sending is not None and group.is_due(now_ms):
            if step == "delivered":
                told += group.sending.count
                group = group.delivered()
            else:
                group = group.failed(now_ms)
        was_sending, group = group.sending, group.begun(now_ms, QUIET_MS)
        if was_sending is None and group.sending is not None:
            began.append(now_ms)
        assert group == msgspec.json.decode(msgspec.json.encode(group), type=Group), "as it is stored"
    left = [part.count for part in (group.waiting, group.sending) if part is not None]
    assert told + sum(left) == heard
    assert group.number == len(began)
    assert all(later - earlier >= QUIET_MS for earlier, later in pairwise(began))


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=20))
def test_the_latest_are_examples_and_the_span_is_whole(instants: list[int]) -> None:
    group = BLANK
    for at_ms in instants:
        group = group.heard(Example(at_ms))
    gathered = group.waiting
    assert gathered is not None
    assert (gathered.first_ms, gathered.last_ms) == (min(instants), max(instants))
    assert [example.at_ms for example in gathered.examples] == instants[-EXAMPLE_COUNT:]


def test_pauses_grow_up_to_a_bound_and_then_it_is_hopeless() -> None:
    group = BLANK.heard(Example(0)).begun(0, 0)
    now_ms, pauses = 0, []
    while not group.is_hopeless(now_ms):
        group = group.failed(now_ms)
        pauses.append(group.next_ms - now_ms)
        now_ms = group.next_ms
    assert pauses[0] == FIRST_PAUSE_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_MS
    assert now_ms - LONGEST_PAUSE_MS < GIVE_UP_MS <= now_ms


@given(st.text(), st.text(), st.text(max_size=50))
def test_nothing_breaks_out_of_its_line(about: str, detail: str, name: str) -> None:
    safe = "".join(char for char in f"{about}{detail}{name}" if not "\ud800" <= char <= "\udfff")
    group = Group(Kind.FAILING, safe, "default", "job_1")
    group = group.heard(Example(1, "job_1", safe, "run_1", 1, safe)).begun(1, 0)
    told = compose("default", "ops", RULE, group, "https://jobs.example/")
    assert told.title.isprintable()
    assert len(told.text.splitlines()) == len(told.text.split("\n")) - 1 == 7
    assert all(line.isprintable() for line in told.text.splitlines())
    assert msgspec.json.decode(told.body)["data"]["about"] == safe


@given(st.text(), st.integers(2, 50))
def test_one_line_is_printable_and_bounded(text: str, most: int) -> None:
    line = one_line(text, most)
    assert line.isprintable()
    assert len(line) <= most
    assert one_line(line, most) == line


def test_a_message_has_an_id_of_its_rule_subject_and_number() -> None:
    def of(tenant_id: str, rule: str, **fields: Any) -> str:
        group = msgspec.structs.replace(BLANK.heard(Example(1)).begun(1, 0), **fields)
        return compose(tenant_id, rule, RULE, group, "").id

    ids = {
        of("a", "b"),
        of("a", "c"),
        of("b", "b"),
        of("", "b"),
        of("a", "b", number=2),
        of("a", "b", began_ms=2),
        of("a", "b", about="other"),
        of("a", "b", kind=Kind.FAILING),
    }
    assert len(ids) == 8
    assert of("a", "b") == of("a", "b", tries=7, next_ms=9, is_open=True)


def test_without_a_public_url_there_are_no_links() -> None:
    group = BLANK.heard(Example(1, "job_1", "report", "run_1", 1, "x")).begun(1, 0)
    body = message(group)
    assert body["data"]["url"] is None
    assert body["data"]["examples"][0]["url"] is None
    assert "http" not in body["text"]
    linked = message(group, url="https://jobs.example/tickwheel/")
    assert linked["data"]["url"] == "https://jobs.example/tickwheel/#/runs/run_1"


def test_a_long_name_is_cut() -> None:
    group = Group(Kind.RECOVERED, "x" * 1_000, "default").heard(Example(1)).begun(1, 0)
    assert len(message(group)["text"]) < NAME_CHARS + 40


def test_addresses_are_plain() -> None:
    good = ["ops@example.com", "a.b+c@sub.example.co", "x@localhost", "o'neil@example.com"]
    bad = [
        *("", "@", "a@", "@b.example", "a b@c.example", "a@b..example", ".a@b.example", "a.@b.example"),
        *("a@-b.example", "a@b.example\n", "a@b.example,c@d.example", '"a"@b.example', "a@[127.0.0.1]"),
        *("<a@b.example>", "ä@b.example", "a@b.example\x00", "x" * 250 + "@b.example", "a@b@c.example"),
    ]
    assert [address for address in good if address_fault(address) is not None] == []
    assert [address for address in bad if address_fault(address) is None] == []
