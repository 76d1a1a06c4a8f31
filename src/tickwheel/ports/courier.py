"""The courier: brings a message to whom a rule names."""

from typing import Protocol

from tickwheel.domain.notifications.messages import Message
from tickwheel.domain.notifications.rule import NotificationRule


class Courier(Protocol):
    """Bounded in time by itself. A message that is brought again has the same id."""

    def check(self, tenant_id: str, rule: NotificationRule) -> None:
        """Raise `InvalidRequest` or `EgressRefused` for what can't be brought from here in any case."""
        ...

    def warnings(self, tenant_id: str, rule: NotificationRule) -> list[str]:
        """What whoever sets the rule should know of how it is brought."""
        ...

    async def bring(self, rule: NotificationRule, message: Message) -> str | None:
        """None: it arrived. Else why not, without secrets."""
        ...

    async def aclose(self) -> None:
        """Let go of connections; nothing is brought afterwards."""
        ...
