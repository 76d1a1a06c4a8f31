"""What the silence of a counter may be taken for."""

from tickwheel.ports.coordinator import Beat
from tickwheel.services.ownership.membership import LONGEST_GAP_MS, Member, Membership, Standing, candidates
from tickwheel.services.ownership.node_note import NodeNote, encode_note

FIT = encode_note(NodeNote(name="x"))


class Observer:
    """Reads counters each 100 ms; an answer takes 10 ms."""

    def __init__(self) -> None:
        self.membership = Membership(dead_ms=1_000)
        self.now_ms = 5_000

    def read(self, payload: bytes = FIT, /, **counters: int) -> None:
        self.now_ms += 100
        beats = {name: Beat(counter, payload) for name, counter in counters.items()}
        self.membership.observe(beats, self.now_ms - 10, self.now_ms)

    def standing(self, name: str) -> Standing:
        return self.member(name).standing

    def member(self, name: str) -> Member:
        [member] = [member for member in self.membership.members() if member.incarnation == name]
        return member


def test_a_member_is_new_until_its_counter_changes() -> None:
    """Its row may have been left behind by a process that died a week ago."""
    observer = Observer()
    observer.read(x=7)
    assert observer.standing("x") is Standing.NEW
    observer.read(x=8)
    assert observer.standing("x") is Standing.ALIVE


def test_a_second_without_a_change_is_silence() -> None:
    observer = Observer()
    observer.read(x=7)
    observer.read(x=8)
    for _ in range(10):
        observer.read(x=8)
    assert observer.standing("x") is Standing.ALIVE, "990 ms at most are certain"
    observer.read(x=8)
    assert observer.standing("x") is Standing.SILENT
    observer.read(x=9)
    assert observer.standing("x") is Standing.ALIVE


def test_silence_is_counted_from_an_answer_to_a_question() -> None:
    """Slow answers make silence look shorter, never longer."""
    membership = Membership(dead_ms=1_000)
    membership.observe({"x": Beat(1, FIT)}, 0, 450)
    membership.observe({"x": Beat(1, FIT)}, 460, 900)
    assert membership.members()[0].silent_ms == 10


def test_a_lower_counter_is_a_change_too() -> None:
    """The coordinator lost its data; whoever writes is alive."""
    observer = Observer()
    observer.read(x=900)
    observer.read(x=3)
    assert observer.standing("x") is Standing.ALIVE


def test_a_failed_beat_makes_all_silences_begin_anew() -> None:
    """G2: or a restart of the coordinator would make everybody look dead."""
    observer = Observer()
    for _ in range(9):
        observer.read(x=1, y=2)
    observer.membership.begin_anew(observer.now_ms)
    assert not observer.membership.trusted_at(observer.now_ms)
    for _ in range(9):
        observer.read(x=1, y=2)
        assert observer.standing("x") is Standing.NEW
    assert observer.membership.trusted_at(observer.now_ms)


def test_a_pause_of_ones_own_is_no_silence_of_others() -> None:
    """G2: the loop stood still for 40 s (or for a bit more than two beats); nothing is known of that time."""
    for pause_ms in (40_000, LONGEST_GAP_MS + 100):
        observer = Observer()
        observer.read(x=1)
        observer.read(x=2)
        observer.now_ms += pause_ms
        observer.read(x=2)
        assert observer.member("x").silent_ms == 0
        assert observer.standing("x") is Standing.ALIVE


def test_trust_ends_a_second_after_the_last_round() -> None:
    observer = Observer()
    assert not observer.membership.trusted_at(observer.now_ms)
    observer.read(x=1)
    assert observer.membership.trusted_at(observer.now_ms + 999)
    assert not observer.membership.trusted_at(observer.now_ms + 1_000)


def test_who_leaves_is_forgotten() -> None:
    observer = Observer()
    observer.read(x=1, y=1)
    observer.read(y=2)
    assert [member.incarnation for member in observer.membership.members()] == ["y"]


def test_an_owner_that_nobody_lists_is_silent_after_a_second() -> None:
    observer = Observer()
    observer.read()
    observer.membership.expect(["ghost"], observer.now_ms)
    for _ in range(10):
        observer.read()
        assert observer.standing("ghost") is Standing.NEW
    observer.read()
    assert observer.standing("ghost") is Standing.SILENT


def test_an_expected_owner_that_beats_is_judged_by_its_beats() -> None:
    observer = Observer()
    observer.read()
    observer.membership.expect(["x"], observer.now_ms)
    for counter in range(20):
        observer.read(x=counter)
    assert observer.standing("x") is Standing.ALIVE


def test_an_owner_that_owns_nothing_any_more_is_not_expected() -> None:
    observer = Observer()
    observer.read(x=1)
    observer.membership.expect(["ghost"], observer.now_ms)
    observer.membership.expect([], observer.now_ms)
    assert [member.incarnation for member in observer.membership.members()] == ["x"]


def test_only_fit_members_that_are_not_silent_are_ranked() -> None:
    """G3: what makes a node unfit is said in its beat."""
    notes = {
        "fit.1": NodeNote(),
        "draining.1": NodeNote(draining=True),
        "clock.1": NodeNote(unfit="clock"),
        "worker.1": NodeNote(roles=("worker",)),
        "api.1": NodeNote(roles=("api",)),
        "all.1": NodeNote(roles=("api", "scheduler", "worker")),
    }
    membership = Membership(dead_ms=1_000)
    beats = {name: Beat(1, encode_note(note)) for name, note in notes.items()} | {"noise.1": Beat(1, b"noise")}
    membership.observe(beats, 0, 0)
    ranked = candidates(membership.members(), excluded=())
    assert [member.incarnation for member in ranked] == ["all.1", "fit.1"]
    assert [member.incarnation for member in candidates(membership.members(), excluded=["fit.1"])] == ["all.1"]


def test_of_one_process_only_the_latest_incarnation_is_ranked() -> None:
    membership = Membership(dead_ms=1_000)
    membership.observe({name: Beat(1, FIT) for name in ("p.9", "p.10", "q.1")}, 0, 0)
    ranked = candidates(membership.members(), excluded=())
    assert sorted(member.incarnation for member in ranked) == ["p.10", "q.1"]


def test_a_changed_note_is_read() -> None:
    observer = Observer()
    observer.read(x=1)
    observer.read(encode_note(NodeNote(draining=True)), x=2)
    assert observer.member("x").note.draining
