"""Keys with revisions in a dictionary, whose answers can be lost and whose requests can be held up."""

from collections.abc import Mapping, Sequence

from tickwheel.adapters.coordination.keys import Change, Entry


class KeyTable:
    """Implements `coordination.keys.KeyStore`; several coordinators may share one."""

    described = "a table"

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.is_reachable = True
        self.loses_next_answer = False

    async def read(self) -> Mapping[str, Entry]:
        self._check()
        return dict(self.entries)

    async def swap(self, changes: Sequence[Change]) -> int | None:
        self._check()
        revision = self._apply(changes)
        if self.loses_next_answer:
            self.loses_next_answer = False
            raise ConnectionError("the answer got lost")
        return revision

    async def aclose(self) -> None:
        pass

    def _check(self) -> None:
        if not self.is_reachable:
            raise ConnectionError("nobody answers")

    def _apply(self, changes: Sequence[Change]) -> int | None:
        for change in changes:
            entry = self.entries.get(change.key)
            if (entry.modified if entry else 0) != change.seen:
                return None
        self.revision += 1
        for change in changes:
            if change.only_check:
                continue
            old = self.entries.pop(change.key, None)
            if change.value is not None:
                created = old.created if old else self.revision
                self.entries[change.key] = Entry(change.value, created, self.revision)
        return self.revision
