"""What a tenant may use: its limits, and everything else that its record says.

A tenant has what its own record says; what that leaves out it has from the record of defaults, and what neither
says is unlimited. So a tenant is freed of a default by a number that is large enough.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.decoder_words import plain_words
from tickwheel.domain.requests.text_rules import text_fault

S = TypeVar("S", bound=msgspec.Struct)

COUNT_MAX: Final = 1_000_000_000
RATE_MAX: Final = 1_000_000
"""More per second limits nothing."""
CONCURRENCY_MAX: Final = 1_000_000
WEIGHT_MIN: Final = 0.01
WEIGHT_MAX: Final = 100
NOTE_CHARS: Final = 1_000

_Rate = Annotated[int, Meta(ge=1, le=RATE_MAX)]


class LimitName(StrEnum):
    """What a request can be refused for; the field of `TenantLimits` that says how much."""

    MAX_JOBS = "max_jobs"
    MAX_PAYLOAD_BYTES = "max_payload_bytes"
    PAYLOAD_BYTES_PER_SECOND = "payload_bytes_per_second"
    REQUESTS_PER_SECOND = "requests_per_second"
    DUE_PER_SECOND = "due_per_second"


class TenantLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Null: no limit of its own.

    `max_payload_bytes` is of one job; `requests_burst` (else a second's worth) may come at once; `due_per_second`
    bounds how many runs are due, and how many start, in one second; `weight` is the share of slots beside others.
    """

    max_jobs: Annotated[int, Meta(ge=0, le=COUNT_MAX)] | None = None
    max_payload_bytes: Annotated[int, Meta(ge=0, le=COUNT_MAX)] | None = None
    payload_bytes_per_second: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None
    requests_per_second: _Rate | None = None
    requests_burst: _Rate | None = None
    due_per_second: _Rate | None = None
    concurrency: Annotated[int, Meta(ge=1, le=CONCURRENCY_MAX)] | None = None
    weight: Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)] | None = None

    def over(self, defaults: "TenantLimits") -> "TenantLimits":
        """These, and those of `defaults` where these say nothing."""
        own = [getattr(self, name) for name in self.__struct_fields__]
        rest = [getattr(defaults, name) for name in self.__struct_fields__]
        return TenantLimits(*(a if a is not None else b for a, b in zip(own, rest, strict=True)))


UNLIMITED: Final = TenantLimits()


class TenantSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of a tenant. `egress` None: that of the defaults. Whoever is `disabled` is served nothing.

    A record of its own decides whether a tenant is disabled; so defaults that are disabled let only those in that
    have a record.
    """

    limits: TenantLimits = UNLIMITED
    egress: EgressPolicy | None = None
    disabled: bool = False
    note: str = ""

    def over(self, defaults: "TenantSettings") -> "TenantSettings":
        """What holds for a tenant with these settings."""
        egress = defaults.egress if self.egress is None else self.egress
        return TenantSettings(self.limits.over(defaults.limits), egress, self.disabled, self.note)


NOTHING_SET: Final = TenantSettings()


def read_settings(tree: Mapping[str, Any]) -> TenantSettings:
    """Settings from decoded JSON. Raises `InvalidRequest` that names everything that is wrong."""
    problems: list[FieldProblem] = []
    settings = _read(TenantSettings, tree, "", problems)
    problems += [] if settings.egress is None else settings.egress.faults()
    fault = text_fault(settings.note.replace("\n", " "))
    if len(settings.note) > NOTE_CHARS:
        fault = f"has {len(settings.note)} characters; at most {NOTE_CHARS} are allowed"
    if fault is not None:
        problems.append(FieldProblem("note", fault))
    if problems:
        raise InvalidRequest(problems)
    return settings


_NESTED: Final[Mapping[str, type[msgspec.Struct]]] = {"limits": TenantLimits, "egress": EgressPolicy}


def _read(kind: type[S], tree: Mapping[str, Any], path: str, problems: list[FieldProblem]) -> S:
    """The fields of `tree` that can be read; `problems` gets the others."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in tree.items():
        where = f"{path}{name}"[:200]
        if name not in known:
            problems.append(FieldProblem(where, f"is not known here; known are {', '.join(known)}", "unknown"))
        elif not path and name in _NESTED:
            if isinstance(value, Mapping):
                values[name] = _read(_NESTED[name], value, f"{name}.", problems)
            elif value is not None:
                problems.append(FieldProblem(where, "must be an object"))
        else:
            try:
                values[name] = msgspec.convert(value, known[name].type)
            except msgspec.ValidationError as error:
                problems.append(FieldProblem(where, plain_words(str(error))))
    return kind(**values)
