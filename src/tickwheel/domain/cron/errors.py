"""The one error that a bad cron expression or zone ends in."""


class CronError(ValueError):
    """A rejected expression. `str(error)` names the field, the token and what is allowed, or the remedy.

    `field` is `second`, `minute`, `hour`, `day-of-month`, `month`, `day-of-week` or `timezone`; None when the
    fault isn't in one field (wrong count, empty, too long).
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
