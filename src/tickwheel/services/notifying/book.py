"""The groups as the node that leads knows them, and what of them is not written yet.

All that one lap changes is written at once, with the notices that were taken in. If another node has written since
the groups were read, nothing is written: this one was paused, or isn't the leader any more, and reads again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tickwheel.domain.notifications.groups import Example, Group
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.ports.notices import GroupKey, NoticeStore
from tickwheel.services.notifying.rules import RuleKey

SUBJECTS_MAX: Final = 20
"""So many subjects of a rule and kind have messages of their own at a time; what is beyond shares one."""
OTHERS: Final = "*"
OTHERS_ABOUT: Final = "several others"
_DECODER: Final = msgspec.json.Decoder(Group)


class GroupBook:
    """Read it with `open` before anything else."""

    def __init__(self, version: int, groups: dict[GroupKey, Group]) -> None:
        self._version, self._groups = version, groups
        self._changed: set[GroupKey] = set()
        self._counts = Counter(_counted(key, group) for key, group in groups.items())

    @staticmethod
    async def open(store: NoticeStore) -> "GroupBook":
        """As it is stored. A group that this version can't read is left out, and goes when its rule does."""
        version, bodies = await store.notice_groups()
        groups = {}
        for key, body in bodies.items():
            try:
                groups[key] = _DECODER.decode(body)
            except msgspec.MsgspecError:
                continue
        return GroupBook(version, groups)

    def items(self) -> Iterator[tuple[GroupKey, Group]]:
        """All of them; they may be changed meanwhile."""
        yield from list(self._groups.items())

    def get(self, key: GroupKey) -> Group | None:
        """One of them."""
        return self._groups.get(key)

    def put(self, key: GroupKey, group: Group) -> None:
        """Change one."""
        known = self._groups.get(key)
        if known != group:
            self._counts[_counted(key, group)] += known is None
            self._groups[key] = group
            self._changed.add(key)

    def drop(self, key: GroupKey) -> None:
        """Forget one."""
        known = self._groups.pop(key, None)
        if known is not None:
            self._counts[_counted(key, known)] -= 1
            self._changed.add(key)

    def heard(self, rule: RuleKey, kind: Kind, subject: str, blank: Group, example: Example) -> GroupKey:
        """One more thing happened to a subject; `blank` is its group if there is none yet. Gives where it is."""
        key = GroupKey(*rule, f"{kind}/{subject}")
        if key not in self._groups and self._counts[rule, kind] >= SUBJECTS_MAX:
            key = GroupKey(*rule, f"{kind}/{OTHERS}")
            blank = replace(blank, about=OTHERS_ABOUT, job_id="")
        self.put(key, self._groups.get(key, blank).heard(example))
        return key

    async def settle(self, store: NoticeStore, done: Sequence[int] = ()) -> bool:
        """Write what has changed, and take these notices away. False: somebody else wrote; read it anew."""
        if not self._changed and not done:
            return True
        put = {
            key: msgspec.json.encode(self._groups[key]).decode() for key in self._changed if key in self._groups
        }
        drop = [key for key in self._changed if key not in self._groups]
        if not await store.settle_notices(self._version, done=done, put=put, drop=drop):
            return False
        self._version += 1
        self._changed.clear()
        return True


def _counted(key: GroupKey, group: Group) -> tuple[RuleKey, Kind]:
    return (key.tenant_id, key.rule), group.kind
