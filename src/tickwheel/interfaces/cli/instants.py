"""Instants and lengths as people read and write them."""

import re
from datetime import datetime
from typing import Any, Final

import click

_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d|w)", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Length(click.ParamType[float]):
    """`45m`, `1h30m`, `90s`, `2d`; a bare number is seconds. Gives seconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return float(value)
        text = value.strip().lower()
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII):
            return float(text)
        if not text or _PART.sub("", text):
            self.fail(f"{value!r} is not a length such as 45m, 1h30m, 90s or 2d", param, ctx)
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def short(instant: datetime | None) -> str:
    """`2026-10-01 02:00:00Z`; `-` for none."""
    return "-" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}Z"


def exact(instant: datetime | None) -> str | None:
    """With milliseconds; None stays None."""
    return None if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}.{instant.microsecond // 1000:03d}Z"
