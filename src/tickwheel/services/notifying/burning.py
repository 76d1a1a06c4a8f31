"""Notes when an error budget of lateness begins to burn too fast, or faster than it did.

Each node looks at what it has started itself; the node that leads makes one message of what several of them note.
"""

from typing import Final

from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.slo import RULES
from tickwheel.ports.clock import Clock
from tickwheel.ports.notices import Notice, NoticeStore
from tickwheel.ports.registry import NO_TENANT
from tickwheel.services.punctuality import Attainment, Punctuality

LOOK_MS: Final = 15_000
_URGENCY: Final = {rule.name: len(RULES) - place for place, rule in enumerate(RULES)}


class BurnWatch:
    """The loop."""

    def __init__(self, punctuality: Punctuality, store: NoticeStore, clock: Clock) -> None:
        self._punctuality, self._store, self._clock = punctuality, store, clock
        self._urgency: dict[str, int] = {}

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._clock.sleep_ms(LOOK_MS)
            await self.look()

    async def look(self) -> None:
        """Note what has become more urgent since the last look."""
        found = self._punctuality.attainments()
        urgency = {one.objective.name: _URGENCY[one.rule.name] for one in found if one.rule is not None}
        risen = [one for one in found if urgency.get(one.objective.name, 0) > self._urgency_of(one)]
        if risen:
            await self._store.add_notices([self._notice(one) for one in risen])
        self._urgency = urgency

    def _urgency_of(self, one: Attainment) -> int:
        return self._urgency.get(one.objective.name, 0)

    def _notice(self, one: Attainment) -> Notice:
        rule = one.rule
        if rule is None:
            raise ValueError("nothing burns")
        left = f"{one.budget_left:.0%}" if one.budget_left > 0 else "nothing"
        detail = (
            f"{rule.name}: {one.burn_rates[rule.long]:.1f} times too fast in {rule.long.label} and "
            f"{one.burn_rates[rule.short]:.1f} times in {rule.short.label}, {one.late[rule.long]:,} late starts, "
            f"as node {self._punctuality.node} counts; {left} of the budget is left"
        )
        return Notice(
            Kind.BURNING,
            one.objective.tenant_id or NO_TENANT,
            at_ms=self._clock.now_ms(),
            subject=one.objective.name,
            detail=detail,
        )
