"""Standard output that can't hold a scheduler up.

A terminal on which somebody pressed Ctrl-S, or a pager that shows its first page, reads nothing for as long as it
likes; a closed pipe never will. So lines are written by a thread of their own, straight to the descriptor (a
buffer's lock that is held at the end of the process would crash it). What nobody reads is dropped beyond a bound.
"""

import os
import queue
import threading
from typing import Final

STDOUT: Final = 1
LINES_HELD: Final = 10_000
CLOSE_S: Final = 0.2


class Terminal:
    """Writes lines in order, in the background."""

    def __init__(self, descriptor: int = STDOUT) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tickwheel-terminal", daemon=True)
        self._thread.start()

    def write_line(self, text: str) -> None:
        """Show it soon; never waits."""
        if self._lines.qsize() < LINES_HELD:
            self._lines.put(text)

    def close(self) -> None:
        """Let what was written be shown, but not for long."""
        self._lines.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        for text in iter(self._lines.get, None):
            data = memoryview(f"{text}\n".encode("utf-8", "replace"))
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                return
