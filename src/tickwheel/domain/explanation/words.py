"""Lengths and instants in sentences."""

from typing import Final

from tickwheel.domain.requests.instants import format_instant

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))
_ORDINALS: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_TENTHS_BELOW_MS: Final = 60_000


def length(length_ms: int) -> str:
    """`340 ms`, `2.4 s`, `5 min 3 s`, `2 h 10 min`, `3 d 4 h`: two units at most."""
    if length_ms < 1_000:
        return f"{length_ms} ms"
    if length_ms < _TENTHS_BELOW_MS:
        tenths = length_ms // 100
        return f"{tenths // 10}.{tenths % 10} s" if tenths % 10 else f"{tenths // 10} s"
    parts, rest = list[str](), length_ms // 1_000 * 1_000
    for unit_ms, name in (*_UNITS, (1_000, "s")):
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count} {name}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def at(instant_ms: int) -> str:
    """`2026-10-01T02:00:00Z`, with milliseconds where there are any."""
    return format_instant(instant_ms).replace(".000Z", "Z")


def ordinal(number: int) -> str:
    """`second`, `17th`."""
    if number in _ORDINALS:
        return _ORDINALS[number]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
