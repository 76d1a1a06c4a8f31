"""`MemoryKeys`: keys in a set. The reference for the other caches of keys."""

from collections.abc import Sequence

from tickwheel.ports.keys import Key


class MemoryKeys:
    """Implements `ports.keys.KeyCache`; `noted` is open."""

    def __init__(self) -> None:
        self.noted: set[Key] = set()

    async def seen(self, keys: Sequence[Key]) -> Sequence[bool]:
        return [key in self.noted for key in keys]

    async def note(self, keys: Sequence[Key]) -> None:
        self.noted.update(keys)

    async def aclose(self) -> None:
        """There is nothing to let go of."""
