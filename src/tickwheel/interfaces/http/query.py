"""The parameters after the question mark: typed, bounded, and refused by name when unknown.

Readers collect problems instead of raising, so that one answer names everything that is wrong; `done` raises them.
"""

from typing import Final, TypeVar
from urllib.parse import parse_qsl

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.domain.requests.text_rules import text_fault

_MAX_PARAMETERS: Final = 50
_MAX_TEXT_CHARS: Final = 1024

C = TypeVar("C")


class Query:
    """The parsed query string of one request."""

    __slots__ = ("_known", "_problems", "_values")

    def __init__(self, query_string: bytes) -> None:
        self._values: dict[str, str] = {}
        self._known: list[str] = []
        self._problems: list[FieldProblem] = []
        if query_string:
            self._parse(query_string)

    def _parse(self, query_string: bytes) -> None:
        try:
            pairs = parse_qsl(
                query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MAX_PARAMETERS,
            )
        except UnicodeDecodeError:
            self.reject("query", "not UTF-8 after percent-decoding", "encoding")
            return
        except ValueError:
            self.reject("query", f"more than {_MAX_PARAMETERS} parameters", "too_many")
            return
        for name, value in pairs:
            if name in self._values:
                self.reject(name, "given more than once", "duplicate")
            self._values[name] = value

    def reject(self, field: str, message: str, code: str = "invalid") -> None:
        """Note one problem; `done` raises them all."""
        self._problems.append(FieldProblem(field, message, code))

    def text(self, name: str, most_chars: int = _MAX_TEXT_CHARS) -> str | None:
        """The value as it is; None if absent."""
        self._known.append(name)
        value = self._values.get(name)
        if value is None:
            return None
        fault = text_fault(value)
        if not 1 <= len(value) <= most_chars:
            fault = f"has {len(value)} characters; 1 to {most_chars} are allowed"
        if fault is not None:
            self.reject(name, fault)
            return None
        return value

    def given(self, name: str) -> str:
        """The value as it came, unchecked and unclaimed: for whoever looks before the endpoint does."""
        return self._values.get(name, "")

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number within [low, high]."""
        value = self.text(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 16 and low <= int(value) <= high:
            return int(value)
        self.reject(name, f"must be a whole number from {low} to {high}", "range")
        return default

    def instant(self, name: str) -> int | None:
        """An instant as UTC epoch ms."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse_instant(text)
        except InstantError as error:
            self.reject(name, str(error), "instant")
            return None

    def choice(self, name: str, choices: dict[str, C]) -> C | None:
        """One of the named choices."""
        value = self.text(name)
        if value is None:
            return None
        if value not in choices:
            self.reject(name, f"must be one of {', '.join(choices)}", "choice")
            return None
        return choices[value]

    def done(self) -> None:
        """Raise `InvalidRequest` if a parameter was wrong, or if there is one that nobody asked for."""
        for name in self._values:
            if name not in self._known:
                known = ", ".join(self._known) or "none"
                self.reject(name[:80], f"unknown parameter; known here: {known}", "unknown_field")
        if self._problems:
            raise InvalidRequest(self._problems)
