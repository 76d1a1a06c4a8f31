"""Whether an expression that was made up is one at all."""

from tickwheel.domain.cron import CronError, parse_cron


def accepted(expression: str) -> bool:
    """Whether it fires at all: `*/10` and the fourth Sunday, say, never fall on one day."""
    try:
        parse_cron(expression)
    except CronError:
        return False
    return True
