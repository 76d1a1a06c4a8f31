"""A rule of notification: which events, of which jobs, are told to whom, and how often at most.

A rule belongs to a tenant and sees what is that tenant's. Rules of the installation belong to none, and see all.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.limits import NAME_CHARS, TAG_CHARS
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.requests.target_rules import endpoint_fault, secret_name_fault
from tickwheel.domain.requests.text_rules import text_fault

FAILURES_DEFAULT: Final = 3
FAILURES_MAX: Final = 100
QUIET_SECONDS_DEFAULT: Final = 900
QUIET_SECONDS_MAX: Final = 7 * 86_400
ADDRESSES_MAX: Final = 20
ADDRESS_CHARS: Final = 254
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9_%+/=?^{|}~!#$&'*-]+(?:\.[A-Za-z0-9_%+/=?^{|}~!#$&'*-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}))*",
    re.ASCII,
)
_MEMBERS: Final = ("events", "to", "job_name_prefix", "tag", "failures", "quiet_seconds")


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where messages are posted. `signing_secret` names one of the tenant's; empty: its `default`, if any."""

    endpoint: str
    signing_secret: str = ""


class NotificationRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of a rule, which tells by webhook or by e-mail. `failures` are what makes a job failing."""

    events: tuple[Kind, ...]
    webhook: Webhook | None = None
    email: tuple[str, ...] = ()
    job_name_prefix: str = ""
    tag: str = ""
    failures: int = FAILURES_DEFAULT
    quiet_seconds: int = QUIET_SECONDS_DEFAULT

    @property
    def quiet_ms(self) -> int:
        """The quiet time."""
        return self.quiet_seconds * 1_000

    def takes_job(self, name: str, tags: Sequence[str]) -> bool:
        """Whether the rule is about this job."""
        return name.startswith(self.job_name_prefix) and (not self.tag or self.tag in tags)


def address_fault(address: str) -> str | None:
    """Of an e-mail address. Names of other alphabets are written as punycode."""
    if len(address) > ADDRESS_CHARS or _ADDRESS.fullmatch(address) is None:
        return "is no plain e-mail address such as ops@example.com"
    return None


def read_rule(tree: Mapping[str, Any]) -> NotificationRule:
    """A rule from decoded JSON. Raises `InvalidRequest` that names everything that is wrong."""
    reading = _Reading(tree, "")
    reading.knows(*_MEMBERS)
    events = reading.texts("events", required=True)
    webhook, email = _read_destination(reading)
    rule = NotificationRule(
        events=_kinds(events, reading),
        webhook=webhook,
        email=email,
        job_name_prefix=reading.text("job_name_prefix", NAME_CHARS),
        tag=reading.text("tag", TAG_CHARS),
        failures=reading.number("failures", FAILURES_DEFAULT, 1, FAILURES_MAX),
        quiet_seconds=reading.number("quiet_seconds", QUIET_SECONDS_DEFAULT, 0, QUIET_SECONDS_MAX),
    )
    if reading.problems:
        raise InvalidRequest(reading.problems)
    return rule


class _Reading:
    """Reads members one by one, and gathers what is wrong."""

    def __init__(self, tree: Mapping[str, Any], path: str, problems: list[FieldProblem] | None = None) -> None:
        self.tree, self._path = tree, path
        self.problems: list[FieldProblem] = [] if problems is None else problems

    def wrong(self, name: str, message: str, code: str = "invalid") -> None:
        """Note a problem of a member."""
        self.problems.append(FieldProblem(f"{self._path}{name}"[:200], message, code))

    def knows(self, *names: str) -> None:
        """Refuse all other members."""
        for name in self.tree:
            if name not in names:
                self.wrong(str(name), f"is not known here; known are {', '.join(names)}", "unknown")

    def text(self, name: str, most: int) -> str:
        """A text; empty if it isn't there."""
        value = self.tree.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.wrong(name, "must be a text")
            return ""
        fault = text_fault(value)
        if len(value) > most:
            fault = f"has {len(value)} characters; at most {most} are allowed"
        if fault is not None:
            self.wrong(name, fault)
        return value

    def texts(self, name: str, *, required: bool = False) -> list[str]:
        """A list of texts."""
        value = self.tree.get(name)
        if value is None and not required:
            return []
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            self.wrong(name, "must be a list with at least one text")
            return []
        return value

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number."""
        value = self.tree.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.wrong(name, f"must be a whole number from {low} to {high}")
            return default
        return value

    def inner(self, name: str) -> "_Reading | None":
        """A member that is an object."""
        value = self.tree.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.wrong(name, "must be an object")
            return None
        return _Reading(value, f"{self._path}{name}.", self.problems)


def _kinds(texts: Sequence[str], reading: _Reading) -> tuple[Kind, ...]:
    known = {kind.value: kind for kind in Kind}
    for text in texts:
        if text not in known:
            reading.wrong("events", f"has {text[:40]!r}; there are {', '.join(known)}", "unknown")
    return tuple(kind for kind in Kind if kind in texts)


def _read_destination(reading: _Reading) -> tuple[Webhook | None, tuple[str, ...]]:
    to = reading.inner("to")
    if to is None:
        if "to" not in reading.tree or reading.tree["to"] is None:
            reading.wrong("to", 'is missing; name {"webhook": {"endpoint": URL}} or {"email": [ADDRESS]}')
        return None, ()
    to.knows("webhook", "email")
    given = [name for name in ("webhook", "email") if to.tree.get(name) is not None]
    if len(given) != 1:
        reading.wrong("to", "must have either webhook or email; make two rules for both")
        return None, ()
    return (_read_webhook(to), ()) if given == ["webhook"] else (None, _read_email(to))


def _read_webhook(to: _Reading) -> Webhook | None:
    webhook = to.inner("webhook")
    if webhook is None:
        return None
    webhook.knows("endpoint", "signing_secret")
    endpoint, secret = webhook.tree.get("endpoint"), webhook.tree.get("signing_secret") or ""
    fault = endpoint_fault(endpoint) if isinstance(endpoint, str) else "must be the address of a webhook"
    if fault is not None:
        webhook.wrong("endpoint", fault.replace("target.headers (Authorization)", "a signing secret's receiver"))
    fault = "must be a text" if not isinstance(secret, str) else secret_name_fault(secret) if secret else None
    if fault is not None:
        webhook.wrong("signing_secret", fault)
    return Webhook(str(endpoint), str(secret))


def _read_email(to: _Reading) -> tuple[str, ...]:
    addresses = to.texts("email", required=True)
    if len(addresses) > ADDRESSES_MAX:
        to.wrong("email", f"has {len(addresses)} addresses; at most {ADDRESSES_MAX} are allowed, or a list's own")
    for address in addresses:
        fault = address_fault(address)
        if fault is not None:
            to.wrong("email", f"has {address[:80]!r}, which {fault}")
    return tuple(dict.fromkeys(addresses))
