"""What one look makes a node do."""

from typing import Any

from tickwheel.domain.rendezvous import top_ranked
from tickwheel.ports.shards import ShardState
from tickwheel.services.ownership.membership import Member, Standing
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.placement import Plan, plan

COUNT = 16


def member(name: str, standing: Standing = Standing.ALIVE) -> Member:
    return Member(name, standing, 0, NodeNote())


def table(owner: str | None, epoch: int = 3) -> list[ShardState]:
    return [ShardState(shard, epoch, owner) for shard in range(COUNT)]


def planned(**changes: Any) -> Plan:
    given: dict[str, Any] = {
        "me": "me",
        "is_candidate": True,
        "leaves": False,
        "ranked": [],
        "deposed": set(),
        "states": table(None),
        "held": {},
    }
    return plan(**{**given, **changes})


def ranked_for(name: str, *others: str) -> set[int]:
    tops = top_ranked([name, *others], COUNT)
    assert tops is not None
    return {shard for shard, top in enumerate(tops) if top == name}


def test_free_shards_are_taken_under_the_epoch_seen() -> None:
    assert planned().take == dict.fromkeys(range(COUNT), 3)


def test_only_those_of_ones_own_rank_are_taken() -> None:
    assert set(planned(ranked=[member("x")]).take) == ranked_for("me", "x")


def test_a_member_that_is_only_listed_is_ranked_but_given_nothing() -> None:
    new = [member("x", Standing.NEW)]
    assert set(planned(ranked=new).take) == ranked_for("me", "x")
    held = dict.fromkeys(range(COUNT), 3)
    assert planned(ranked=new, states=table("me"), held=held).give_up == []


def test_what_another_one_lives_to_own_is_given_to_it() -> None:
    held = dict.fromkeys(range(COUNT), 3)
    now = planned(ranked=[member("x"), member("y")], states=table("me"), held=held)
    assert sorted(set(group) == ranked_for("x", "me", "y") for group in now.give_up) == [False, True]
    assert {shard for group in now.give_up for shard in group} == set(range(COUNT)) - ranked_for("me", "x", "y")
    assert not now.take


def test_shards_of_the_living_are_awaited_and_those_of_the_deposed_taken() -> None:
    now = planned(states=table("x"))
    assert (now.take, now.awaited_count) == ({}, COUNT)
    assert set(planned(states=table("x"), deposed={"x"}).take) == set(range(COUNT))


def test_ones_own_row_that_is_not_held_is_taken_again_or_disowned() -> None:
    """G5: the answer to a take was lost; never resume a shard in the epoch in which it was dropped (G6)."""
    now = planned(states=table("me"), ranked=[member("x")])
    assert set(now.take) == ranked_for("me", "x")
    assert now.disown == dict.fromkeys(ranked_for("x", "me"), 3)


def test_what_is_held_under_another_epoch_or_owner_is_dropped() -> None:
    held = dict.fromkeys(range(COUNT), 3)
    assert planned(states=table("me", epoch=4), held=held).drop == list(range(COUNT))
    assert planned(states=table("x"), held=held).drop == list(range(COUNT))
    assert planned(states=table(None), held=held).drop == list(range(COUNT))
    assert planned(states=table("me"), held=held).drop == []


def test_who_is_no_candidate_takes_nothing_and_keeps_what_nobody_can_have() -> None:
    held = dict.fromkeys(range(COUNT), 3)
    assert not planned(is_candidate=False).take
    now = planned(is_candidate=False, states=table("me"), held=held)
    assert (now.give_up, now.drop) == ([], [])


def test_who_leaves_gives_everything_up_heirs_or_not() -> None:
    held = dict.fromkeys(range(COUNT), 3)
    now = planned(is_candidate=False, leaves=True, states=table("me"), held=held)
    assert now.give_up == [list(range(COUNT))]
