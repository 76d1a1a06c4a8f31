"""Which shards this node should take and which it should give up, from one look at the members and the table.

Nobody assigns. Each node ranks the candidates by itself (`domain.rendezvous`) and acts on its own part only:

- *Take* what it is top-ranked for and nobody owns, or what a deposed incarnation owns. A shard that stands under
  this node's own name without being held (the answer to a take was lost, or its tokens ran out) is taken again,
  under a higher epoch: a shard that was dropped is never resumed in the same one (G5, G6).
- *Give up* what it holds and another one is top-ranked for, but only to a node that is seen to be alive. One that
  is merely listed is ranked (so nobody grabs what will be its own in a moment) but receives nothing yet.
- *Drop* what it holds in memory and the table says is somebody else's, or under another epoch.
- *Disown* what stands under its name, is not held, and should not be its own.

Two nodes may see different members for a while and want the same shard, or leave one to each other. The epochs in
the store make the first harmless, and the next look ends the second.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from tickwheel.domain.rendezvous import top_ranked
from tickwheel.ports.shards import ShardState
from tickwheel.services.ownership.membership import Member, Standing


class Plan(msgspec.Struct, frozen=True):
    """What to do now. Mappings are shard -> epoch seen."""

    take: Mapping[int, int]
    give_up: Sequence[Sequence[int]]  # each of these groups goes to one and the same node
    drop: Sequence[int]
    disown: Mapping[int, int]
    awaited_count: int  # ours by rank, but still owned by somebody who lives


_top_ranked = lru_cache(maxsize=16)(top_ranked)
"""The candidates are the same from one look to the next, nearly always."""


def plan(
    *,
    me: str,
    is_candidate: bool,
    leaves: bool,
    ranked: Collection[Member],
    deposed: Collection[str],
    states: Sequence[ShardState],
    held: Mapping[int, int],
) -> Plan:
    """`ranked`: the other candidates; `held`: shard -> epoch in memory; `leaves`: give all up, heirs or not."""
    alive = {member.incarnation for member in ranked if member.standing is Standing.ALIVE}
    names = frozenset([member.incarnation for member in ranked] + ([me] if is_candidate else []))
    tops = _top_ranked(names, len(states))
    take, disown, drop = dict[int, int](), dict[int, int](), list[int]()
    heirs: dict[str | None, list[int]] = {}
    awaited_count = 0
    for state in states:
        top = None if tops is None else tops[state.shard]
        if state.shard in held:
            if (state.owner, state.epoch) != (me, held[state.shard]):
                drop.append(state.shard)
            elif leaves or top in alive:
                heirs.setdefault(top, []).append(state.shard)
        elif top == me:
            if state.owner is None or state.owner == me or state.owner in deposed:
                take[state.shard] = state.epoch
            else:
                awaited_count += 1
        elif state.owner == me:
            disown[state.shard] = state.epoch
    return Plan(take, list(heirs.values()), drop, disown, awaited_count)
