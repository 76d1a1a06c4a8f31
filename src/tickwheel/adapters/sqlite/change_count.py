"""Counts the changes of jobs, so that a claim knows whether what was read of its jobs still holds.

Who reads definitions notes the count first, and the claim brings it back. While it is the same, none of those jobs
was edited, paused, cancelled or deleted since, and the claim need not look at them again, which is half of its
price. Example: a cancel is committed between the read and the claim; the count has risen, so the claim looks.

The count rises twice: in the writer's transaction, for claims behind the change in it, and again after the commit,
for those who read before the commit and after the first rise.
"""


class ChangeCount:
    """`value` may be read in any thread, before what it is to vouch for is read."""

    def __init__(self) -> None:
        self.value = 1
        self._open = False

    def rise(self) -> None:
        """A job may be changed now. In the writer's thread, in its transaction."""
        self.value += 1
        self._open = True

    def settle(self) -> None:
        """The transaction is over, whatever became of it. In the writer's thread, before anybody is answered."""
        if self._open:
            self.value += 1
            self._open = False
