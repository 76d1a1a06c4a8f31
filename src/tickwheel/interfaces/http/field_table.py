"""The table of request fields for readers: the /docs page and the reference are printed from it."""

import msgspec

from tickwheel.domain.requests.fields import FIELDS, Field, Kind


class FieldRow(msgspec.Struct, frozen=True):
    """One line. `code` is in backquotes; an empty cell says that there is nothing to say."""

    name: str
    kind: str
    default: str
    bound: str
    goes_with: str
    meaning: str

    @property
    def middle(self) -> tuple[str, ...]:
        """The cells between the name and the meaning."""
        return self.kind, self.default, self.bound, self.goes_with


def field_rows() -> list[FieldRow]:
    """Every field of a job request, in the order of the table."""
    return [
        FieldRow(field.path, _kind(field), _default(field), _bound(field), _goes_with(field), field.summary)
        for field in FIELDS
    ]


def _kind(field: Field) -> str:
    if field.kind is Kind.ENUM:
        return "one of " + ", ".join(f"`{choice}`" for choice in field.choices)
    return field.kind.value


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default_text:
        return field.default_text
    return "" if field.default in (None, "") else f"`{field.default}`"


def _bound(field: Field) -> str:
    if field.kind is Kind.ANY:
        return f"{field.maximum:,.0f} {field.unit}"
    words = []
    if field.minimum is not None and field.maximum is not None:
        words.append(f"{_number(field.minimum)} to {_number(field.maximum)} {field.unit}".strip())
    if field.max_items is not None:
        words.append(f"{field.max_items} items")
    if field.max_chars is not None and field.kind is not Kind.INSTANT:
        words.append(f"{field.max_chars} characters" + (" each" if field.max_items is not None else ""))
    return ", ".join(words)


def _goes_with(field: Field) -> str:
    words = []
    if field.target_type is not None:
        words.append(f"only with `{field.target_type}`")
    if field.schedule_types:
        words.append("only with " + ", ".join(f"`{kind}`" for kind in field.schedule_types))
    if field.not_with:
        words.append("not with " + ", ".join(f"`{name}`" for name in field.not_with))
    return "; ".join(words)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
