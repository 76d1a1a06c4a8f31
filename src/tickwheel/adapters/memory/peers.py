"""`MemoryPeers`: links between the nodes of one process, for tests and simulations."""

from collections.abc import Callable, Mapping


class MemoryNetwork:
    """Who listens, and who can't be reached. An address is the process name."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[], None]] = {}
        self.cut_off: set[str] = set()  # processes that answer nobody and are told nothing, alive or not

    def reaches(self, one: str, other: str) -> bool:
        """Whether a packet between these two arrives."""
        return one not in self.cut_off and other not in self.cut_off


class MemoryPeers:
    """Implements `ports.peers.Peers`. `aclose` is also what the end of a process looks like."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._process = ""
        self._watched: set[str] = set()

    async def open(self, process: str, on_nudge: Callable[[], None]) -> str:
        self._process = process
        self._network.listeners[process] = on_nudge
        return process

    def watch(self, addresses: Mapping[str, str]) -> None:
        self._watched = set(addresses)

    def is_gone(self, process: str) -> bool:
        return (
            process in self._watched
            and self._network.reaches(self._process, process)
            and process not in self._network.listeners
        )

    def nudge(self) -> None:
        for process, on_nudge in list(self._network.listeners.items()):
            if process != self._process and self._network.reaches(self._process, process):
                on_nudge()

    async def aclose(self) -> None:
        self._network.listeners.pop(self._process, None)
