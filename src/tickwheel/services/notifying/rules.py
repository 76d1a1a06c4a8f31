"""The rules of notification: put, delete, list and try them. Every node knows them as they were a second ago."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest, NotFound, StoreUnavailable
from tickwheel.domain.notifications.messages import compose_trial
from tickwheel.domain.notifications.rule import NotificationRule
from tickwheel.domain.redaction import redacted
from tickwheel.domain.requests.target_rules import secret_name_fault
from tickwheel.domain.requests.tenancy import check_new_tenant
from tickwheel.ports.clock import Clock
from tickwheel.ports.courier import Courier
from tickwheel.ports.registry import NO_TENANT, NOTIFICATION, Act, AuditEntry, Record, Registry
from tickwheel.services.record_cache import RecordCache

RULES_MAX: Final = 50
"""Of one tenant: each event is held against all of them."""
_DECODER: Final = msgspec.json.Decoder(NotificationRule)

RuleKey: TypeAlias = tuple[str, str]
"""(tenant or "", name)."""


class RuleView(msgspec.Struct, frozen=True):
    """A rule as it is stored; the empty tenant: of the installation."""

    tenant_id: str
    name: str
    rule: NotificationRule
    version: int
    updated_ms: int


class Tried(NamedTuple):
    """What became of a trial message; `error` None: it arrived."""

    view: RuleView
    error: str | None


class NotificationRules:
    """`refresh` before the first look."""

    def __init__(self, registry: Registry, courier: Courier, clock: Clock, public_url: str = "") -> None:
        self._registry, self._courier, self._clock, self._public_url = registry, courier, clock, public_url
        self._cache: RecordCache[RuleView] = RecordCache(registry, NOTIFICATION, _view, clock)
        self._of_tenant: dict[str, dict[RuleKey, NotificationRule]] = {}
        self._sorted = -1

    def for_events_of(self, tenant_id: str) -> Mapping[RuleKey, NotificationRule]:
        """The rules that see what is this tenant's; of what is nobody's ("") only those of the installation."""
        if self._sorted != self._cache.generation:
            self._sort()
        return self._of_tenant.get(NO_TENANT, {}) | self._of_tenant.get(tenant_id, {})

    def _sort(self) -> None:
        self._of_tenant, self._sorted = {}, self._cache.generation
        for key, view in self._cache.all().items():
            self._of_tenant.setdefault(key[0], {})[key] = view.rule

    def get(self, key: RuleKey) -> NotificationRule | None:
        """As far as is known here."""
        view = self._cache.get(*key)
        return None if view is None else view.rule

    def is_unreadable(self, key: RuleKey) -> bool:
        """Whether there is such a rule, and this version can't read it."""
        return key in self._cache.unreadable

    async def refresh(self) -> None:
        """Read what has changed."""
        await self._cache.refresh()

    async def list(self, tenant_id: str) -> Sequence[RuleView]:
        """Those of a tenant, by name."""
        await self.refresh()
        return [view for (of, _), view in sorted(self._cache.all().items()) if of == tenant_id]

    async def show(self, tenant_id: str, name: str) -> RuleView:
        """One of them. Raises `NotFound`."""
        await self.refresh()
        view = self._cache.get(tenant_id, name)
        if view is None:
            raise _no_such_rule(name)
        return view

    def warnings(self, view: RuleView) -> Sequence[str]:
        """What whoever sets the rule should know."""
        return self._courier.warnings(view.tenant_id, view.rule)

    async def put(
        self, tenant_id: str, name: str, rule: NotificationRule, act: Act, expected_version: int | None = None
    ) -> RuleView:
        """Make or replace a rule; only at `expected_version`, if that is given.

        Raises `InvalidRequest`, `EgressRefused`, `VersionMismatch` and `NotFound` (no rule of that version).
        """
        fault = secret_name_fault(name)
        if fault is not None:
            raise InvalidRequest([FieldProblem("notification_name", fault)])
        self._courier.check(tenant_id, rule)
        known = {view.name for view in await self.list(tenant_id)}
        if name not in known and tenant_id != NO_TENANT:
            check_new_tenant(tenant_id)
        if name not in known and len(known) >= RULES_MAX:
            raise InvalidRequest([FieldProblem("", f"there are {RULES_MAX} rules already; delete one first")])
        body = msgspec.json.encode(rule).decode()
        record = Record(NOTIFICATION, tenant_id, name, body)
        shown = msgspec.json.encode(_shown(rule)).decode()
        stored = await self._registry.put_record(record, act, expected_version=expected_version, shown=shown)
        await self._read_again()
        return _view(stored)

    async def delete(self, tenant_id: str, name: str, act: Act) -> None:
        """What it still had to say is not said any more. Raises `NotFound`."""
        if not await self._registry.delete_record(NOTIFICATION, tenant_id, name, act):
            raise _no_such_rule(name)
        await self._read_again()

    async def attempt(self, tenant_id: str, name: str, act: Act) -> Tried:
        """Send a trial message, once, and wait for what becomes of it. Raises `NotFound`."""
        view = await self.show(tenant_id, name)
        shown = msgspec.json.encode({"sent_by": "email" if view.rule.webhook is None else "webhook"}).decode()
        subject = f"{NOTIFICATION}:{name}"
        entry = AuditEntry(0, 0, tenant_id, act.actor, act.source, act.action, subject, after=shown)
        await self._registry.append_entries([entry])
        message = compose_trial(tenant_id, name, self._clock.now_ms(), self._public_url)
        return Tried(view, await self._courier.bring(view.rule, message))

    async def _read_again(self) -> None:
        self._cache.now_stale()
        with suppress(StoreUnavailable):  # what was written is written; it is read again a second later
            await self._cache.refresh()


def _view(record: Record) -> RuleView:
    rule = _DECODER.decode(record.body)
    return RuleView(record.tenant_id, record.name, rule, record.version, record.updated_ms)


def _shown(rule: NotificationRule) -> NotificationRule:
    """For the audit log: secret parts of an address are left out."""
    if rule.webhook is None:
        return rule
    webhook = msgspec.structs.replace(rule.webhook, endpoint=redacted(rule.webhook.endpoint))
    return msgspec.structs.replace(rule, webhook=webhook)


def _no_such_rule(name: str) -> NotFound:
    return NotFound(f"there is no rule of notification {name[:80]!r}")
