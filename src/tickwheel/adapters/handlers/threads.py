"""Threads for plain functions: started when needed, at most as many as the executor has slots.

Work goes in through a queue, results come back in batches: a thread appends its result and wakes the event loop
only if no wake-up is on its way already. The threads are daemons, so a function that ignores cancellation cannot
hold up the end of the process.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

Item = TypeVar("Item")


class WorkerThreads:
    """Runs `call(item)` on threads; `deliver(results)` runs through `wake` on the caller's side."""

    def __init__(self, limit: int, wake: Callable[[Callable[[], None]], None]) -> None:
        self._limit, self._wake = limit, wake
        self._calls: queue.SimpleQueue[Callable[[], Callable[[], None]] | None] = queue.SimpleQueue()
        self._results: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._waking = False
        self._started = self._busy = 0

    def submit(self, call: Callable[[], Callable[[], None]]) -> None:
        """Run `call` on a thread; what it returns is then called on the loop's side. Loop thread only."""
        self._busy += 1
        if self._busy > self._started and self._started < self._limit:
            self._started += 1
            threading.Thread(target=self._run, name=f"tickwheel-handler-{self._started}", daemon=True).start()
        self._calls.put(call)

    def withdraw(self) -> None:
        """Drop what no thread has begun."""
        while True:
            try:
                self._calls.get_nowait()
            except queue.Empty:
                return
            self._busy -= 1

    def stop(self) -> None:
        """Let idle threads end; busy ones end after their call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _run(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                return
            deliver = call()
            with self._lock:
                self._results.append(deliver)
                waking, self._waking = self._waking, True
            if not waking:
                self._wake(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            results, self._results = self._results, deque()
            self._waking = False
        for deliver in results:
            self._busy -= 1
            deliver()
