"""How many runs at a time, as people write it: `50`, or `5..200` for a range."""

from typing import Final

from tickwheel.domain.errors import FieldProblem

MOST: Final = 10_000
_TOLD_CHARS: Final = 80
_SHAPE: Final = f"must be a number from 1 to {MOST}, or MIN..MAX such as 5..200"


def checked_concurrency(
    value: int | tuple[int, int], problems: list[FieldProblem], field: str = "concurrency"
) -> tuple[int, int]:
    """(least, most); adds a problem for what is no such thing."""
    low, high = value if isinstance(value, tuple) else (value, value)
    if not 1 <= low <= MOST or not 1 <= high <= MOST:
        problems.append(FieldProblem(field, _SHAPE))
    elif low > high:
        problems.append(FieldProblem(field, f"begins with the least: {high}..{low}, not {low}..{high}"))
    return low, high


def parse_concurrency(text: str, problems: list[FieldProblem], field: str = "concurrency") -> tuple[int, int]:
    """The same from a text."""
    first, dots, last = text.strip().partition("..")
    try:
        low = int(first)
        high = int(last) if dots else low
    except ValueError:
        problems.append(FieldProblem(field, f"{_SHAPE}, not {text[:_TOLD_CHARS]!r}"))
        return 1, 1
    return checked_concurrency((low, high), problems, field)
