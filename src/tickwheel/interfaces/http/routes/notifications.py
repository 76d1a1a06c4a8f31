"""Rules of notification: list, show, set, delete and try them."""

from collections.abc import Mapping
from typing import Final

from tickwheel.domain.limits import BODY_BYTES
from tickwheel.domain.notifications.rule import read_rule
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.notification_bodies import NotificationBody, NotificationList
from tickwheel.interfaces.http.notification_views import rule_body, tried_body
from tickwheel.interfaces.http.preconditions import expected_version
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.small_bodies import decode_tree
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, Header, Refusal, ok
from tickwheel.ports.registry import NO_TENANT
from tickwheel.services.notifying.rules import NotificationRules, RuleView

_YES_NO: Final = {"true": True, "false": False}


class NotificationRoutes:
    """What is about notifications."""

    def __init__(self, deps: Deps) -> None:
        self._found = deps.notifications

    @property
    def _rules(self) -> NotificationRules:
        if self._found is None:
            raise Refusal("not_ready", "This node keeps no rules of notification.")
        return self._found

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/notifications"): self.list,
            ("GET", "/v1/notifications/{notification_name}"): self.get,
            ("PUT", "/v1/notifications/{notification_name}"): self.put,
            ("DELETE", "/v1/notifications/{notification_name}"): self.delete,
            ("POST", "/v1/notifications/{notification_name}/test"): self.attempt,
        }

    async def list(self, call: Call) -> Answer:
        """All of a tenant or of the installation."""
        owner = _owner_of(call)
        return ok(NotificationList([self._body(view) for view in await self._rules.list(owner)]))

    async def get(self, call: Call) -> Answer:
        """One of them."""
        owner = _owner_of(call)
        view = await self._rules.show(owner, call.path("notification_name"))
        return ok(self._body(view), headers=_etag(view))

    async def put(self, call: Call) -> Answer:
        """Make or replace one."""
        owner, version = _owner_of(call), expected_version(call)
        rule = read_rule(decode_tree(await call.json_body(BODY_BYTES)))
        name, act = call.path("notification_name"), call.act("notification.put")
        view = await self._rules.put(owner, name, rule, act, version)
        return ok(self._body(view), headers=_etag(view))

    async def delete(self, call: Call) -> Answer:
        """Forget one."""
        owner = _owner_of(call)
        await self._rules.delete(owner, call.path("notification_name"), call.act("notification.delete"))
        return Answer(204)

    async def attempt(self, call: Call) -> Answer:
        """Send a trial message."""
        owner = _owner_of(call)
        tried = await self._rules.attempt(owner, call.path("notification_name"), call.act("notification.test"))
        return ok(tried_body(tried, self._rules.warnings(tried.view)))

    def _body(self, view: RuleView) -> NotificationBody:
        return rule_body(view, self._rules.warnings(view))


def _owner_of(call: Call) -> str:
    """Whose rules are meant; the installation's need a token for all tenants."""
    is_wide = call.query.choice("installation", _YES_NO)
    if is_wide and call.principal.tenant_id is not None:
        raise Refusal("forbidden", "This is about the whole installation: it needs a token for all tenants.")
    if is_wide and call.query.given("tenant_id"):
        call.query.reject("installation", "goes without tenant_id: its rules are no tenant's")
    owner = tenant_of(call)
    call.query.done()
    return NO_TENANT if is_wide else owner


def _etag(view: RuleView) -> tuple[Header, ...]:
    return ((b"etag", b'"%d"' % view.version),)
