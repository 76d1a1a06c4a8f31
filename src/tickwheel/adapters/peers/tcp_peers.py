"""`TcpPeers`: the links of this process over TCP."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from tickwheel.adapters.peers.address import own_network, parse_address, print_address
from tickwheel.adapters.peers.lines import greeting
from tickwheel.adapters.peers.link import Link
from tickwheel.adapters.peers.listener import Listener
from tickwheel.ports.clock import Clock

LINK_LIMIT: Final = 256


class TcpPeers:
    """Implements `ports.peers.Peers`. Listens on `host` and tells others to come to `advertise` (default: `host`).

    Raises `OSError` from `open` when it can't listen there.
    """

    def __init__(self, *, host: str, clock: Clock, advertise: str = "", port: int = 0) -> None:
        self._host, self._advertise, self._port = host, advertise or host, port
        self._clock = clock
        self._network = own_network()
        self._listener: Listener | None = None
        self._on_nudge: Callable[[], None] = lambda: None
        self._links: dict[tuple[str, str], tuple[Link, asyncio.Task[None]]] = {}

    async def open(self, process: str, on_nudge: Callable[[], None]) -> str:
        self._on_nudge = on_nudge
        self._listener = Listener(greeting(process))
        port = await self._listener.listen(self._host, self._port)
        return print_address(self._advertise, port, self._network)

    def watch(self, addresses: Mapping[str, str]) -> None:
        wanted = set(list(addresses.items())[:LINK_LIMIT])
        for key in self._links.keys() - wanted:
            self._links.pop(key)[1].cancel()
        for process, text in wanted - self._links.keys():
            address = parse_address(text, self._network)
            if address is not None:
                link = Link(process=process, address=address, clock=self._clock, on_nudge=self._nudged)
                running = asyncio.create_task(link.run(), name=f"peer {process}")
                self._links[process, text] = link, running

    def is_gone(self, process: str) -> bool:
        return any(link.is_gone for (watched, _), (link, _) in self._links.items() if watched == process)

    def nudge(self) -> None:
        if self._listener is not None:
            self._listener.nudge()

    async def aclose(self) -> None:
        if self._listener is not None:
            self._listener.close()
        ending = [running for _, running in self._links.values()]
        self._links.clear()
        for running in ending:
            running.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._clock.sleep_ms(0)  # aborted connections are closed in the next turn of the loop

    def _nudged(self) -> None:
        self._on_nudge()
