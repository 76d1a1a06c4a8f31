"""What events say about delays, and what is kept of it until it is stored."""

from tickwheel.domain.delays import ALL_SHARDS, Delay, DelayKind, shards_text
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.events import LoopFailed, MemberLost, RunsUnserved, ShardsTaken
from tickwheel.services.delay_book import AGAIN_MS, KEPT_COUNT, NEW_COUNT, UNSERVED_MS, DelayBook
from tickwheel.testing.virtual_clock import START_MS, VirtualClock


def book_of(clock: VirtualClock) -> DelayBook:
    book = DelayBook(clock)
    book.node = "node-2"
    return book


def taken(count: int, cause: str = "takeover") -> ShardsTaken:
    return ShardsTaken(count=count, held_count=count, cause=cause)  # type: ignore[arg-type]  # one of its words


def test_a_takeover_is_about_the_shards_that_are_new() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    held = {1, 2}
    book.held = lambda: held
    book.look_at_shards()
    book.emit(MemberLost(incarnation="node-1-ab.1", proved=True, silent_ms=600))
    clock.step_ms(1_300)
    held |= {7, 9}
    book.emit(taken(2))
    [delay] = book.take()
    assert delay == Delay(
        DelayKind.TAKEOVER,
        "node-1-ab.1",
        "node-2",
        START_MS - 600,
        START_MS + 1_300,
        "proved",
        shards_text({7, 9}),
    )
    assert [shard for shard in range(SHARD_COUNT) if delay.is_about(shard)] == [7, 9]


def test_shards_that_come_bit_by_bit_are_told_apart() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    held: set[int] = set()
    book.held = lambda: held
    book.emit(MemberLost(incarnation="node-1-ab.1", proved=False, silent_ms=1_000))
    for shard in (3, 4):
        held.add(shard)
        book.emit(taken(1))
        clock.step_ms(100)
    first, second = book.take()
    assert (first.shards, second.shards) == (shards_text({3}), shards_text({4}))
    assert first.from_ms != second.from_ms
    assert first.detail == "silent"


def test_shards_without_a_dead_owner_tell_nothing() -> None:
    book = book_of(VirtualClock())
    book.held = lambda: {1}
    book.emit(taken(1, "free"))
    book.emit(taken(1))
    assert book.take() == []


def test_a_node_that_fired_nothing_is_not_to_blame() -> None:
    """One machine dies with an API node and a node that fires on it."""
    book = book_of(VirtualClock())
    book.held = lambda: {1}
    book.emit(MemberLost(incarnation="node-1-ab.1", proved=True, silent_ms=500))
    book.emit(MemberLost(incarnation="node-3-cd.1", proved=True, silent_ms=500, fired=False))
    book.emit(taken(1))
    assert [delay.subject for delay in book.take()] == ["node-1-ab.1"]


def test_all_shards_need_no_list() -> None:
    assert shards_text(range(SHARD_COUNT)) == ALL_SHARDS
    assert Delay(DelayKind.STORE, "", "", 0, 1).is_about(200)


def test_a_store_that_is_away_is_told_until_the_next_try() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    for _ in range(3):
        book.emit(LoopFailed(loop="claims", error="StoreUnavailable: refused", retry_in_ms=400))
        clock.step_ms(400)
    book.emit(LoopFailed(loop="claims", error="KeyError: 1", retry_in_ms=50_000))
    [delay] = book.take()
    assert (delay.kind, delay.subject) == (DelayKind.STORE, "claims")
    assert (delay.from_ms, delay.until_ms) == (START_MS, START_MS + 1_200)


def test_a_handler_that_nobody_has_is_one_delay_however_often_it_is_met() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    for _ in range(5):
        book.emit(RunsUnserved(counts={"send": 3}))
        clock.step_ms(UNSERVED_MS // 2)
        book.end_old()
    [delay] = book.take()
    assert delay.until_ms - delay.from_ms == 4 * (UNSERVED_MS // 2)
    clock.step_ms(2 * UNSERVED_MS)
    book.end_old()
    assert book.take() == [delay]
    book.emit(RunsUnserved(counts={"send": 3}))
    [again] = book.take()
    assert again.from_ms > delay.until_ms


def test_a_delay_ends_when_it_is_not_seen_any_more() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    book.see(DelayKind.LIMIT, "k", START_MS - 500)
    assert [one.until_ms for one in book.take()] == [START_MS]
    clock.step_ms(300)
    book.keep_only((DelayKind.LIMIT,), ())
    [ended] = book.take()
    assert (ended.from_ms, ended.until_ms) == (START_MS - 500, START_MS + 300)
    book.keep_only((DelayKind.LIMIT,), ())
    assert book.take() == []


def test_what_could_not_be_stored_comes_again_unless_it_is_known_better() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    book.see(DelayKind.LIMIT, "k", START_MS)
    book.see(DelayKind.LIMIT, "l", START_MS)
    failed = book.take()
    clock.step_ms(700)
    book.see(DelayKind.LIMIT, "k", START_MS)
    book.give_back(failed)
    assert {one.subject: one.until_ms for one in book.take()} == {"k": START_MS + 700, "l": START_MS}


def test_only_the_longest_of_many_new_ones_get_a_row() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    for number in range(KEPT_COUNT + 50):
        book.see(DelayKind.LIMIT, f"k{number}", START_MS - number)
    book.emit(LoopFailed(loop="claims", error="StoreUnavailable: refused", retry_in_ms=400))
    book.keep_only((DelayKind.LIMIT,), [(DelayKind.LIMIT, f"k{number}") for number in range(400)])
    taken = book.take()
    assert len(taken) == NEW_COUNT
    assert [one.subject for one in taken] == [f"k{KEPT_COUNT - 1 - n}" for n in range(NEW_COUNT)]
    assert book.take() == []  # the others were short, or go on and are met again


def test_one_that_goes_on_is_written_again_now_and_then_and_when_it_ends() -> None:
    clock = VirtualClock()
    book = book_of(clock)
    written = []
    for _ in range(0, 25_000, 500):
        book.see(DelayKind.TARGET, "a.example", START_MS)
        written += [one.until_ms - START_MS for one in book.take()]
        clock.step_ms(500)
    book.keep_only((DelayKind.TARGET,), ())
    written += [one.until_ms - START_MS for one in book.take()]
    assert written == [0, AGAIN_MS, 2 * AGAIN_MS, 25_000]
