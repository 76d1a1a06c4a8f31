"""Cron expressions: what is accepted, and when it fires.

The way of an expression: `expression.py` splits the text and turns away what isn't cron; `fields.py`,
`days_of_month.py` and `days_of_week.py` parse one field each; `compiler.py` puts the fields together to a
`Rule` about the wall clock (`times_of_day.py`, `calendar.py`); `search.py` finds the rule's next instant in a
zone, whose offsets `tickwheel.domain.timeline` holds; `preview.py` explains the result. `schedule.py` has the
value that the rest of the product keeps.

Example: `30 2 * * *` in Europe/Berlin, asked after 2026-03-28T02:00Z, answers 2026-03-29T01:00Z: 02:30 doesn't
exist that day, so the run comes at the first instant after the gap.
"""

from tickwheel.domain.cron.errors import CronError
from tickwheel.domain.cron.preview import Preview, preview
from tickwheel.domain.cron.schedule import CronSchedule, parse_cron

__all__ = ["CronError", "CronSchedule", "Preview", "parse_cron", "preview"]
