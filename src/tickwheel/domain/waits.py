"""What due runs wait for, or waited for until a moment ago: for people who look at the whole installation.

It is read from delays (`domain.delays`), which tell of crowds. Example: "the host pay.example, which gives no
answer", since 9:04.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tickwheel.domain.concurrency import Scope
from tickwheel.domain.delays import Delay, DelayKind

MOST: Final = 5
"""So many of a node are told; they travel with its beats."""
FRESH_MS: Final = 2_000
"""What was seen within it goes on."""
LATELY_MS: Final = 60_000
SUBJECT_BYTES: Final = 320
"""So much is told of a subject. Keys and handlers may be longer, and a beat that is too long would say nothing."""
_DISABLED: Final = "disabled"
_TOLD_RARELY: Final = (DelayKind.WORKER.value, DelayKind.STORE.value)

_HOSTS: Final = {
    "failing": "the host {}, which gives no answer",
    "retry_after": "the host {}, which asked to be left alone",
    "slowed": "the host {}, which pushes back",
    "full": "the host {}, whose calls are all under way",
    "rate": "the rate that is set for {}",
}


class Wait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A crowd of due runs, and what holds it. `kind` and `subject` are those of a delay."""

    kind: str
    subject: str
    since_ms: int
    seen_ms: int  # when it was last the case
    detail: str = ""

    @property
    def length_ms(self) -> int:
        """How long it lasted, or has lasted so far."""
        return max(0, self.seen_ms - self.since_ms)

    def goes_on(self, now_ms: int) -> bool:
        """Whether runs wait for it still."""
        return now_ms - self.seen_ms <= (LATELY_MS if self.kind in _TOLD_RARELY else FRESH_MS)


def find_waits(delays: Iterable[Delay], now_ms: int) -> tuple[Wait, ...]:
    """The longest of the last minute, what goes on first. A disabled tenant's runs are not meant to start."""
    found = [
        Wait(delay.kind.value, _told(delay.subject), delay.from_ms, delay.until_ms, delay.detail)
        for delay in delays
        if delay.kind is not DelayKind.ALIVE
        and delay.until_ms >= now_ms - LATELY_MS
        and not (delay.kind is DelayKind.TENANT and delay.detail == _DISABLED)
    ]
    return longest(found)


def _told(subject: str) -> str:
    encoded = subject.encode(errors="replace")
    if len(encoded) <= SUBJECT_BYTES:
        return subject
    return encoded[:SUBJECT_BYTES].decode(errors="ignore") + "…"


def longest(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Those of several nodes as one: the longest of each subject, what goes on first."""
    by_subject: dict[tuple[str, str], Wait] = {}
    known = list(waits)
    now_ms = max((wait.seen_ms for wait in known), default=0)
    for wait in sorted(known, key=lambda one: (one.goes_on(now_ms), one.length_ms)):
        by_subject[wait.kind, wait.subject] = wait
    return tuple(reversed(by_subject.values()))[:MOST]


def wait_text(wait: Wait) -> str:
    """What is waited for, as it ends a sentence that begins with "runs wait for"."""
    match wait.kind:
        case DelayKind.TARGET.value:
            return _HOSTS.get(wait.detail, _HOSTS["full"]).format(wait.subject)
        case DelayKind.LIMIT.value:
            return _limit_text(wait.subject)
        case DelayKind.TENANT.value:
            return f"the runs per second that the tenant {wait.subject} may start"
        case DelayKind.SLOTS.value:
            executor, _, lane = wait.subject.partition("/")
            whose = "of workers elsewhere" if executor == "worker" else f"for {executor}s"
            return f"a slot {whose} in the lane {lane}"
        case DelayKind.WORKER.value:
            return f"the handler {wait.subject}, which no server or worker has"
        case DelayKind.STORE.value:
            return "the store, which could not be worked with"
        case DelayKind.TAKEOVER.value:
            return f"another node to take over from {wait.subject}, which died"
        case DelayKind.START.value:
            return "a server to be started: none ran"
    return "a reason that another version knows"


def _limit_text(subject: str) -> str:
    scope, _, rest = subject.partition("\n")
    tenant_id, _, word = rest.partition("\n")
    if scope == Scope.TENANT:
        return f"the limit of runs at a time of the tenant {tenant_id}"
    if scope == Scope.JOB_NAME:
        return f"the limit of runs at a time of the jobs named {word}"
    return f"the limit of runs at a time with the key {word}"


def main_wait(waits: Sequence[Wait], length_ms: int) -> Wait | None:
    """The one that explains most of a wait of that length; None if none lasted for half of it."""
    return next((wait for wait in waits if 2 * wait.length_ms >= length_ms), None)
