"""From the text of an expression to its six field texts, with a helpful answer to everything that isn't cron.

Each rejection names the conversion where there is one: an EventBridge or Quartz expression, a `TZ=` prefix, an
interval such as `@every 5m`.
"""

import re
from typing import NoReturn

from tickwheel.domain.cron.errors import CronError
from tickwheel.domain.cron.fields import DAY_OF_WEEK, KINDS

MAX_LENGTH = 256

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_ORDER = "5 fields (minute hour day-of-month month day-of-week) or 6 (the same with the second first)"
_INTERVAL = "there are no intervals that start at any time; for a grid on the clock write e.g. '*/5 * * * *'"
_LOOKALIKES = {"‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-", "＊": "*", "，": ",", "\u00a0": " "}
_PLAIN = re.compile(r"[ -~\t]*")
_COMMAND = re.compile(r"/[A-Za-z.]|[.$|&;:]")
_YEAR = re.compile(r"[*?]|[0-9*][0-9,/*-]*")


def split_expression(text: str) -> list[str]:
    """The six field texts, second first (`0` when the expression has five). Raises CronError."""
    if len(text) > MAX_LENGTH:
        raise CronError(f"the expression has {len(text)} characters; allowed: at most {MAX_LENGTH}")
    if not _PLAIN.fullmatch(text):
        _reject_odd_character(text)
    fields = text.split()
    if not fields:
        raise CronError(f"the expression is empty; allowed: {_ORDER}")
    if fields[0][0] not in "*0123456789":
        _reject_foreign_forms(fields)
        if fields[0][0] == "@":
            fields = _macro(fields)
    if len(fields) == 5:
        return ["0", *fields]
    if len(fields) == 6:
        _reject_eventbridge_fields(fields)
        _reject_command(fields[5])
        return fields
    raise CronError(_wrong_count(fields))


def quartz_warnings(text: str, fields: list[str]) -> list[str]:
    """A warning where six fields, a `?` and weekday numbers look like Quartz, which counts weekdays from 1."""
    days = fields[5]
    if fields[3] == "?" and len(text.split()) == 6 and days != (shifted := _sunday_zero(days)):
        return [
            f"day-of-week: {days!a} counts from 0 = Sunday here; if it comes from Quartz, where 1 = Sunday, "
            f"write {shifted!a}"
        ]
    return []


def _reject_odd_character(text: str) -> NoReturn:
    """Names the first character that isn't printable ASCII or a tab, and the field that it's in."""
    fields = [part for part in re.split("[ \t]+", text) if part]
    index, part = next((index, part) for index, part in enumerate(fields) if not _PLAIN.fullmatch(part))
    character = next(character for character in part if not _PLAIN.fullmatch(character))
    name = KINDS[index + 6 - len(fields)].name if len(fields) in (5, 6) else None
    kind = "control character" if character < " " or character == "\x7f" else "character"
    plain = _LOOKALIKES.get(character)
    remedy = f"use {plain!r}" if plain else "use an ASCII digit" if character.isdigit() else "remove it"
    raise CronError(
        f"{name + ': ' if name else ''}{part!a} has the {kind} U+{ord(character):04X}; "
        f"allowed: printable ASCII, with spaces and tabs between fields; {remedy}",
        name,
    )


def _reject_foreign_forms(fields: list[str]) -> None:
    first = fields[0].lower()
    if "=" in first:
        raise CronError(
            f"{fields[0]!a} is not a field: a zone or variable prefix is not supported; "
            "give the time zone in its own parameter, timezone"
        )
    if first.startswith(("cron(", "rate(", "at(")):
        raise CronError(_eventbridge_call(" ".join(fields)))


def _macro(fields: list[str]) -> list[str]:
    word = fields[0].lower()
    if word == "@every":
        raise CronError(f"'@every' is not a cron expression; {_INTERVAL}")
    if word == "@reboot":
        raise CronError(f"'@reboot' is not supported: a job has no machine that boots; {_INTERVAL}")
    if word not in MACROS:
        raise CronError(f"{fields[0]!a} is not a known macro; allowed: {', '.join(MACROS)}")
    if len(fields) > 1:
        raise CronError(f"{fields[1]!a} is trailing text; {fields[0]} stands alone")
    return MACROS[word].split()


def _wrong_count(fields: list[str]) -> str:
    message = f"the expression has {len(fields)} field{'s' * (len(fields) > 1)}; allowed: {_ORDER}"
    if len(fields) == 7 and _YEAR.fullmatch(fields[6]):
        converted = _with_our_days(fields[:6])
        return f"{message}; there is no year field: a Quartz expression with a year becomes {converted}"
    if len(fields) > 6:
        return f"{message}; a command, comment or year does not belong here"
    return message


def _eventbridge_call(text: str) -> str:
    kind, _, inner = text.partition("(")
    inner = inner.rstrip().removesuffix(")")
    if kind.lower() == "cron":
        return f"'cron(...)' is EventBridge's form, minute first and a year last; {_converted(inner.split())}"
    if kind.lower() == "rate":
        return f"'rate(...)' is EventBridge's form of an interval, not cron; {_INTERVAL}"
    return "'at(...)' is EventBridge's form of a single instant, not cron; schedule a one-off job with execute_at"


def _reject_eventbridge_fields(fields: list[str]) -> None:
    """Six fields with a `?` where our hour or month is: minute first, year last."""
    for index in (2, 4):
        if "?" in fields[index]:
            name = KINDS[index].name
            raise CronError(
                f"{name}: {fields[index]!a} is not allowed; allowed: {KINDS[index].allowed}; with 6 fields the "
                "second comes first; this looks like EventBridge's form, minute first and a year last; "
                f"{_converted(fields)}",
                name,
            )


def _converted(fields: list[str]) -> str:
    if len(fields) != 6:
        return "write minute hour day-of-month month day-of-week, without the year"
    year = "" if fields[5] in ("*", "?") else f" and bound the job with start_at and end_at for {fields[5]!a}"
    return f"write {_with_our_days(fields[:5])}{year}"


def _reject_command(last: str) -> None:
    if _COMMAND.search(last):
        raise CronError(
            f"day-of-week: {last!a} is trailing text; with 6 fields the second comes first and the day-of-week "
            f"last, a command does not belong here; allowed: {DAY_OF_WEEK.allowed}",
            DAY_OF_WEEK.name,
        )


def _with_our_days(fields: list[str]) -> str:
    """The fields, day-of-week last, as text to write here; says so where the weekday numbers change."""
    days = _sunday_zero(fields[-1])
    text = " ".join("*" if part == "?" else part for part in [*fields[:-1], days])
    return f"{text!a}" + (" (weekdays count from 0 = Sunday here, not from 1)" if days != fields[-1] else "")


def _sunday_zero(days: str) -> str:
    """Weekday numbers 1-7 from Sunday become 0-6; counts after `#` and `/` stay."""
    return re.sub(r"(?<![#/0-9])([1-7])(?![0-9])", lambda found: str(int(found[1]) - 1), days)
