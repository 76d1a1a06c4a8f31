"""The flags of `tickwheel tenants set`, and the record that they make of the one before."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from msgspec.structs import asdict

from tickwheel.interfaces.client.tenant_models import TenantDefaults

Command = TypeVar("Command", bound=Callable[..., Any])
NONE: Final = "none"
_COUNTS: Final = {
    "max_jobs": "How many jobs it may have.",
    "max_payload_bytes": "How large the payload of one job may be.",
    "payload_bytes_per_second": "How many bytes of payloads it may store per second.",
    "requests_per_second": "How many requests it may make per second.",
    "requests_burst": "How many of them at once (default: a second's worth).",
    "due_per_second": "How many runs may be due, and how many start, in one second.",
    "concurrency": "How many of its runs may be in flight.",
}
_EGRESS_LISTS: Final = {
    "allow": "A host, *.domain or network that webhooks may call; several allowed. `none`: all of them.",
    "allow_private": "A private network that they may reach; several allowed. `none`: those of the settings.",
}


class _NumberOrNone(click.ParamType[Any]):
    """A number, or `none`."""

    def __init__(self, number: type[int] | type[float]) -> None:
        self._number = number
        self.name = "N" if number is int else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == NONE or not isinstance(value, str):
            return value
        try:
            return self._number(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor `{NONE}`", param, ctx)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def record_flags(command: Command) -> Command:
    """Add a flag for each part of a record."""
    options = [click.option(_flag(name), type=_NumberOrNone(int), help=text) for name, text in _COUNTS.items()]
    options += [
        click.option("--weight", type=_NumberOrNone(float), help="Its share of slots beside others, who have 1."),
        *(
            click.option(_flag(name), name, multiple=True, metavar="ENTRY", help=text)
            for name, text in _EGRESS_LISTS.items()
        ),
        click.option(
            "--proxy", metavar="NAME", help="The proxy of the settings on the way, or `direct`, or `none`."
        ),
        click.option(
            "--disable/--enable", "disabled", default=None, help="Refuse its requests and hold its runs."
        ),
        click.option("--note", help="Words for people."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def changed(before: TenantDefaults, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The record with what the flags say, as the API takes it."""
    limits = asdict(before.limits)
    for name in (*_COUNTS, "weight"):
        if flags[name] is not None:
            limits[name] = None if flags[name] == NONE else flags[name]
    egress = {} if before.egress is None else asdict(before.egress)
    for name in _EGRESS_LISTS:
        if flags[name]:
            egress[name] = None if flags[name] == (NONE,) else list(flags[name])
    if flags["proxy"] is not None:
        egress["proxy"] = None if flags["proxy"] == NONE else flags["proxy"]
    said = {name: value for name, value in egress.items() if value is not None}
    return {
        "limits": {name: value for name, value in limits.items() if value is not None},
        "egress": said or None,
        "disabled": before.disabled if flags["disabled"] is None else flags["disabled"],
        "note": before.note if flags["note"] is None else flags["note"],
    }
