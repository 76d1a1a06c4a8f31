"""Links between the processes of a cluster: the quick way to learn that one of them is gone.

Silence alone proves nothing: a process that is paused, or cut off, may wake up and go on. An address at which the
operating system says "nobody listens here" does prove that the process which listened there has ended. So each
process listens on a port for as long as it lives (also while it drains), and says its name to whoever connects.

A *process name* stands for one start of one process, and differs from all others. The incarnations under which
that process is a member derive from it (`process.1`, `process.2`, ...), so a process that was deposed and joined
again answers under the same name.
"""

from collections.abc import Callable, Mapping
from typing import Protocol


class Peers(Protocol):
    """The links of this process. Loop thread only; nothing here waits for another process."""

    async def open(self, process: str, on_nudge: Callable[[], None]) -> str:
        """Listen, and say `process` to whoever connects; gives the address that others are to be told.

        The address is opaque to everybody but `watch`. `on_nudge` is called when some peer nudges.
        """
        ...

    def watch(self, addresses: Mapping[str, str]) -> None:
        """Keep a link to each of these processes (name -> address), and to no other."""
        ...

    def is_gone(self, process: str) -> bool:
        """Whether the last try at a watched process showed that it has ended.

        That is: its address refused the connection, or another process answers there. An address that can't be
        reached, accepts without a word, or says nonsense shows nothing.
        """
        ...

    def nudge(self) -> None:
        """Hint to everybody who is linked to this process: the table of shards has changed. May be lost."""
        ...

    async def aclose(self) -> None:
        """Drop all links and stop listening: from now on others will find this process gone."""
        ...
