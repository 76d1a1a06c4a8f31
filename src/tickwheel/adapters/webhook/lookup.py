"""Host names to addresses, without ever blocking the event loop.

`getaddrinfo` blocks for as long as a name server likes and cannot be cancelled, so it runs in a few daemon
threads (a stuck one must not hold up the end of the process), and whoever waits stops waiting after a
deadline. Names of a zone that never answers would soon have all threads: so whoever asks may have as many as are
still free, and no more. The first one that floods gets half of them, the next one a quarter, and a thread is left
for whoever comes with one name (the dynamic thresholds of Choudhury and Hahne, 1998).

Answers live for some seconds: a receiver that is called a thousand times a second is looked up once,
and a request uses exactly the answer that was vetted (see `egress`). One bad address among several refuses the
host: a resolver under somebody else's control would otherwise choose per connection.
"""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from queue import SimpleQueue
from typing import Final, TypeAlias

from tickwheel.domain.egress import Address
from tickwheel.ports.clock import Clock

Resolve: TypeAlias = Callable[[str], Sequence[str]]
"""Blocking: host name -> address texts. Raises OSError when there are none."""

THREAD_COUNT: Final = 32
CACHE_COUNT: Final = 1024
DEADLINE_MS: Final = 5_000


def system_resolve(host: str) -> Sequence[str]:
    """All addresses that the system knows for `host`, in its order of preference."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(slots=True)
class Answer:
    """Vetted addresses to call, or why there are none. `refused` means that trying again is useless."""

    addresses: tuple[str, ...] = ()
    problem: str | None = None
    refused: bool = False

    def put_last(self, address: str) -> None:
        """`address` did not connect: whoever comes next tries the others first."""
        if address in self.addresses:
            self.addresses = (*(known for known in self.addresses if known != address), address)


@dataclass(slots=True)
class Found:
    """What a look-up gave, not vetted; `answers` is where those who vet it keep what came of that."""

    addresses: tuple[Address, ...] = ()
    problem: str | None = None
    refused: bool = False
    expires_ms: int = 0  # on the monotonic clock
    answers: dict[Hashable, Answer] = field(default_factory=dict)


OnFound: TypeAlias = Callable[[Found], None]


class Lookups:
    """A bounded cache of answers, and the threads that fill it. Loop thread only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        resolve: Resolve = system_resolve,
        *,
        ttl_ms: int,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._resolve = resolve
        self._ttl_ms = ttl_ms
        self._answers: dict[str, Found] = {}
        self._waiting: dict[str, list[OnFound]] = {}
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._lines: dict[str, dict[str, None]] = {}  # asker -> its names that wait for a thread, in order
        self._askers: dict[str, str] = {}  # of names that wait for a thread, or are at work in one
        self._at_work: set[str] = set()
        self._busy: Counter[str] = Counter()  # asker -> threads
        self._questions: SimpleQueue[str | None] = SimpleQueue()
        self._thread_count = 0
        self._closed = False

    def cached(self, host: str) -> Found | None:
        """A fresh answer, or None: then ask."""
        answer = self._answers.get(host)
        return answer if answer is not None and answer.expires_ms > self._clock.monotonic_ms() else None

    def ask(self, host: str, on_found: OnFound, asker: str = "") -> None:
        """Look `host` up; `on_found` is called on the loop's thread, later, within the deadline."""
        waiting = self._waiting.get(host)
        if waiting is not None:
            waiting.append(on_found)
            return
        self._waiting[host] = [on_found]
        self._deadlines[host] = self._loop.call_later(DEADLINE_MS / 1000, self._give_up, host)
        if host not in self._at_work:  # then somebody gave it up, and its late answer will do
            self._askers[host] = asker
            self._lines.setdefault(asker, {})[host] = None
            self._hand_out()

    def _hand_out(self) -> None:
        for asker in list(self._lines):
            line = self._lines[asker]
            while line and self._busy[asker] < THREAD_COUNT - len(self._at_work):
                host = next(iter(line))
                del line[host]
                self._at_work.add(host)
                self._busy[asker] += 1
                if len(self._at_work) > self._thread_count:
                    self._thread_count += 1
                    threading.Thread(target=self._serve, name="webhook-lookup", daemon=True).start()
                self._questions.put(host)
            if not line:
                del self._lines[asker]
            if len(self._at_work) == THREAD_COUNT:
                return

    def close(self) -> None:
        """Answer nobody any more; threads end with the look-up that they are in."""
        self._closed = True
        for deadline in self._deadlines.values():
            deadline.cancel()
        self._waiting.clear()
        for _ in range(self._thread_count):
            self._questions.put(None)

    def _serve(self) -> None:
        while (host := self._questions.get()) is not None and not self._closed:
            try:
                found: Sequence[str] = self._resolve(host)
            except (OSError, UnicodeError):  # UnicodeError: labels that the IDNA codec refuses
                found = ()
            try:
                self._loop.call_soon_threadsafe(self._landed, host, found)
            except RuntimeError:  # the loop is closed: nobody waits
                return

    def _landed(self, host: str, found: Sequence[str]) -> None:
        asker = self._askers.pop(host)
        self._at_work.remove(host)
        self._busy[asker] -= 1
        if not self._busy[asker]:
            del self._busy[asker]
        if not self._closed:
            self._settle(host, _read(host, found))
            self._hand_out()

    def _give_up(self, host: str) -> None:
        if host not in self._at_work:
            asker = self._askers.pop(host)
            del self._lines[asker][host]
            if not self._lines[asker]:
                del self._lines[asker]
        self._settle(host, Found(problem=f"the name {host} did not resolve within {DEADLINE_MS} ms"))

    def _settle(self, host: str, found: Found) -> None:
        found.expires_ms = self._clock.monotonic_ms() + self._ttl_ms
        if len(self._answers) >= CACHE_COUNT:
            self._answers.clear()  # simpler than ageing, and a few thousand look-ups are soon made again
        self._answers[host] = found
        deadline = self._deadlines.pop(host, None)
        if deadline is not None:
            deadline.cancel()
        for on_found in self._waiting.pop(host, ()):
            on_found(found)


def _read(host: str, texts: Sequence[str]) -> Found:
    if not texts:
        return Found(problem=f"the name {host} could not be resolved")
    try:
        return Found(addresses=tuple(map(ip_address, texts)))
    except ValueError:
        return Found(problem=f"the name {host} resolved to something that is no address", refused=True)
