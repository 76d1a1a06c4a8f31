"""Rates as they are written in settings: NAME=100/s."""

from collections.abc import Mapping, Sequence
from typing import Final

from tickwheel.domain.rate import RateLimit, parse_rate

HANDLER_PREFIX: Final = "handler:"


def host_rates(texts: Sequence[str]) -> Mapping[str, RateLimit]:
    """`api.example.com=100/s`, by host (with its port where the URL names one). Raises ValueError."""
    rates = {}
    for text in texts:
        name, rate = _split(text, "api.example.com=100/s")
        if any(sign in name for sign in "/?#@ "):
            raise ValueError(f"{name!r} is no host; write it as in the URL: api.example.com or 10.0.0.7:8080")
        rates[name.lower()] = rate
    return rates


def handler_rates(texts: Sequence[str]) -> Mapping[str, RateLimit]:
    """`handler:send_mail=50/s`, by the handler's name. Raises ValueError."""
    rates = {}
    for text in texts:
        name, rate = _split(text, "handler:send_mail=50/s")
        if not name.startswith(HANDLER_PREFIX) or name == HANDLER_PREFIX:
            raise ValueError(f"{name!r} names no queue such as handler:send_mail; a host's rate is --host-rate")
        rates[name.removeprefix(HANDLER_PREFIX)] = rate
    return rates


def _split(text: str, example: str) -> tuple[str, RateLimit]:
    name, equals, rate = text.rpartition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} must look like {example}")
    return name.strip(), parse_rate(rate.strip())
