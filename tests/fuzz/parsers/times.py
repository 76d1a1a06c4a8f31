"""Cron expressions, instants, zones, lengths, rates, Retry-After: everything that says when."""

from itertools import islice, pairwise

import click
from hypothesis import strategies as st

from tickwheel.config.rates import handler_rates, host_rates
from tickwheel.domain.cron import CronError, parse_cron, preview
from tickwheel.domain.explanation.wall import is_wall, read_wall
from tickwheel.domain.outcome import RETRY_AFTER_CAP_MS, parse_retry_after
from tickwheel.domain.rate import parse_rate
from tickwheel.domain.requests.instants import InstantError, format_instant, parse_instant
from tickwheel.domain.zones import UnknownZoneError, load_zone, zone_names
from tickwheel.interfaces.cli.instants import Length

from ..parser import Parser, encoded, to_text
from ..strategies import DIGITS, joined, maybe, near, pick

_NOW_MS = 1_790_000_000_000
_YEAR_9999_MS = 253_402_300_799_000


def check_cron(data: bytes) -> bool:
    expression, _, zone = to_text(data).partition("\n")
    zone = zone or "UTC"
    try:
        schedule = parse_cron.__wrapped__(expression, zone)  # the cache would make later calls look quick
    except CronError as error:
        assert str(error)
        assert len(str(error)) < 2_000
        return False
    for after_ms in (0, _NOW_MS, _YEAR_9999_MS - 86_400_000, _YEAR_9999_MS + 10_000):
        found = list(islice(schedule.iter_after(after_ms), 5))
        assert all(at > after_ms and at % 1000 == 0 for at in found)
        assert all(one < next_one for one, next_one in pairwise(found))
        assert schedule.next_after(after_ms) == (found[0] if found else None)
    assert schedule.next_after(_NOW_MS) is not None
    shown = preview(expression, zone, _NOW_MS, 3)
    assert list(shown.next_ms) == list(islice(schedule.iter_after(_NOW_MS), 3))
    again = parse_cron.__wrapped__(" ".join(expression.split()), zone)
    assert again.next_after(_NOW_MS) == schedule.next_after(_NOW_MS)
    return True


def _item(low: int, high: int, *words: str) -> st.SearchStrategy[str]:
    value = st.one_of(st.integers(low, high).map(str), st.integers(low, high + 2).map(str), pick("*", *words))
    step = joined("/", st.one_of(st.integers(1, high + 3).map(str), DIGITS))
    return st.one_of(
        pick("*"), value, joined(value, "-", value), joined(value, step), joined(value, "-", value, step)
    )


def _field(low: int, high: int, *words: str) -> st.SearchStrategy[str]:
    return st.lists(_item(low, high, *words), min_size=1, max_size=3).map(",".join)


_ZONES = st.one_of(
    pick("", "UTC", "Europe/Berlin", "America/New_York", "Africa/Casablanca", "Pacific/Apia", "Nowhere")
)
_EXPRESSIONS = st.one_of(
    joined(
        maybe(joined(_field(0, 59), " ")),
        *(_field(0, 59), " ", _field(0, 23), " "),
        *(_field(1, 31, "L", "LW", "15W", "L-3", "?"), " ", _field(1, 12, "JAN", "feb", "DEC"), " "),
        _field(0, 7, "SUN", "fri", "5L", "FRIL", "5#1", "MON#5", "?"),
    ),
    joined(
        pick("0", "30"), " ", pick("0", "2"), " ", pick("*", "29", "31"), " ", pick("2", "*"), " ", pick("*", "1")
    ),
    pick(
        "@daily", "@every 5m", "@reboot", "cron(0 12 * * ? *)", "rate(5 minutes)", "TZ=UTC * * * * *", "0 0 30 2 *"
    ),
)


def check_instant(data: bytes) -> bool:
    text = to_text(data)
    try:
        at_ms = parse_instant(text)
    except InstantError as error:
        assert str(error)
        return False
    assert at_ms >= 0
    printed = format_instant(at_ms)
    assert len(printed) == 24
    assert parse_instant(printed) == at_ms
    return True


_DAY_MS = 86_400_000


def check_wall(data: bytes) -> bool:
    """`<date and time without an offset>`, a line break, and a zone."""
    text, _, zone = to_text(data).partition("\n")
    if not is_wall(text) or zone not in zone_names():
        return False
    try:
        wall = read_wall(text, zone)
        utc = read_wall(text, "UTC")
    except InstantError:
        return False
    assert wall.instants_ms == tuple(sorted(set(wall.instants_ms)))
    assert len(wall.instants_ms) <= 3
    assert wall.instants_ms or wall.gap is not None or not utc.instants_ms or not _is_inside(utc.instants_ms[0])
    assert all(abs(at_ms - utc.instants_ms[0]) <= 2 * _DAY_MS for at_ms in wall.instants_ms)
    return True


def _is_inside(at_ms: int) -> bool:
    return 2 * _DAY_MS < at_ms < _YEAR_9999_MS - 2 * _DAY_MS


_WALLS = joined(
    st.one_of(pick("2026", "1970", "9999", "0001", "0000"), st.integers(1900, 2100).map(str)),
    *("-", st.integers(0, 13).map("{:02}".format), "-", st.integers(0, 32).map("{:02}".format), pick("T", " ")),
    *(
        st.integers(0, 24).map("{:02}".format),
        ":",
        st.integers(0, 60).map("{:02}".format),
        maybe(pick(":00", ":60")),
    ),
)
_TWO = st.integers(0, 99).map("{:02}".format)
_INSTANTS = joined(
    st.one_of(pick("2026", "1970", "1969", "9999", "0000", "2100"), st.integers(0, 9999).map("{:04}".format)),
    *(
        "-",
        st.integers(0, 13).map("{:02}".format),
        "-",
        st.integers(0, 32).map("{:02}".format),
        pick("T", "t", " "),
    ),
    *(st.integers(0, 24).map("{:02}".format), ":", st.integers(0, 60).map("{:02}".format), ":"),
    st.one_of(st.integers(0, 61).map("{:02}".format), pick("59")),
    maybe(joined(".", st.one_of(st.integers(0, 10**9).map(str), pick("999999999", "9999", "0005")))),
    st.one_of(pick("Z", "z", "+00:00", "-00:00", "+24:00", "-23:59", ""), joined(pick("+", "-"), _TWO, ":", _TWO)),
)


def check_zone(data: bytes) -> bool:
    name = to_text(data)
    try:
        zone = load_zone.__wrapped__(name)
    except UnknownZoneError as error:
        assert error.suggestion is None or error.suggestion in zone_names()
        assert len(str(error)) < 700
        return False
    assert name in zone_names()
    assert zone.key == name
    return True


def check_length(data: bytes) -> bool:
    text = to_text(data)
    try:
        seconds = Length().convert(text, None, None)
    except click.UsageError:
        return False
    assert 0 <= seconds < 1e20
    return True


_LENGTHS = st.lists(
    joined(DIGITS, maybe(joined(".", DIGITS)), pick("ms", "s", "m", "h", "d", "w", "")), max_size=4
)


def check_rate(data: bytes) -> bool:
    text = to_text(data)
    try:
        rate = parse_rate(text)
    except ValueError as error:
        assert type(error) is ValueError
        return False
    assert rate.amount >= 1
    assert rate.burst >= 1
    assert rate.amount * 1_000 <= 1_000_000 * rate.period_ms
    return True


def check_named_rates(data: bytes) -> bool:
    texts, taken = to_text(data).split("\n"), False
    for read in (host_rates, handler_rates):
        try:
            rates = read(texts)
        except ValueError as error:
            assert type(error) is ValueError
            continue
        taken = True
        assert 1 <= len(rates) <= len(texts)
        assert all(name for name in rates)
    return taken


_RATES = joined(DIGITS, "/", pick("s", "m", "h", "d", "S", ""))


def check_retry_after(data: bytes) -> bool:
    wait_ms = parse_retry_after(to_text(data), _NOW_MS)
    assert wait_ms is None or 0 <= wait_ms <= RETRY_AFTER_CAP_MS
    return wait_ms is not None


_DATES = joined(
    *(pick("Sun", "Mon", "Wednesday", "Xyz", "Thu"), pick(", ", " ", ",", ""), DIGITS, pick(" ", "-")),
    *(pick("Nov", "Jan", "nov", "11", "Abc"), pick(" ", "-"), DIGITS, " "),
    *(DIGITS, ":", DIGITS, ":", DIGITS, pick(" GMT", " UTC", " +0000", " -9999", " EST", "", " +99999999", " Z")),
)

PARSERS = (
    Parser(
        name="cron",
        check=check_cron,
        grammar=lambda: near(joined(_EXPRESSIONS, "\n", _ZONES)),
        examples=encoded(
            [
                "30 2 * * *\nEurope/Berlin",
                "*/5 9-17 * * MON-FRI\nUTC",
                "0 0 0 L-3 2,4 *\nUTC",
                "0 0 29 2 *\nUTC",
                "0 12 ? * 5#3\nAsia/Kolkata",
                "@daily\nPacific/Apia",
                "15 10 15W * ?\nUTC",
                "0 0 LW * FRIL\nUTC",
            ]
        ),
        words=(b"*", b"/", b",", b"-", b"L", b"W", b"#", b"?", b"SUN", b"JAN", b"@", b"59", b"60", b"H", b"cron("),
        share=1.5,
    ),
    Parser(
        name="instant",
        check=check_instant,
        grammar=lambda: near(_INSTANTS),
        examples=encoded(
            ["2026-10-22T14:30:00Z", "2026-10-22t14:30:00.123456789+02:00", "9999-12-31T23:59:59.999Z"]
        ),
        words=(b"T", b"Z", b"+14:00", b"-12:00", b".999999999", b":60", b"9999-12-31"),
    ),
    Parser(
        name="wall_time",
        check=check_wall,
        grammar=lambda: near(joined(_WALLS, "\n", st.one_of(_ZONES, st.sampled_from(sorted(zone_names()))))),
        examples=encoded(
            [
                "2026-03-29T02:30\nEurope/Berlin",
                "2026-10-25 02:30:00\nEurope/Berlin",
                "2011-12-30T12:00\nPacific/Apia",
            ]
        ),
        words=(b"T", b":", b"-", b"9999", b"0001", b"\n", b"UTC"),
        share=0.5,
    ),
    Parser(
        name="zone",
        check=check_zone,
        grammar=lambda: near(
            st.one_of(
                st.sampled_from(sorted(zone_names())),
                pick(
                    "CET",
                    "UTC+2",
                    "europe/berlin",
                    "Berlin",
                    "../UTC",
                    "Europe",
                    "posixrules",
                    "Factory",
                    "New York",
                ),
            )
        ),
        examples=encoded(["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC", "GMT+0", "US/Eastern"]),
        words=(b"/", b"..", b"_", b"Etc/"),
        share=0.5,
    ),
    Parser(
        name="length",
        check=check_length,
        grammar=lambda: near(_LENGTHS.map("".join)),
        examples=encoded(["45m", "1h30m", "90s", "2d", "0.5", "250ms", "1w"]),
        words=(b"ms", b"h", b".", b"inf", b"nan", b"1e5"),
        share=0.5,
    ),
    Parser(
        name="rate",
        check=check_rate,
        grammar=lambda: near(_RATES),
        examples=encoded(["100/s", "30/m", "5/h", "1000000/s"]),
        words=(b"/s", b"/m", b"/h"),
        share=0.5,
    ),
    Parser(
        name="named_rates",
        check=check_named_rates,
        grammar=lambda: near(
            st.lists(
                joined(pick("api.example.com", "handler:a", "[::1]:8", "a b", ""), pick("=", "", "=="), _RATES),
                max_size=3,
            ).map("\n".join)
        ),
        examples=encoded(["api.example.com=100/s", "handler:send_mail=50/s", "10.0.0.7:8080=1/s\nb=2/m"]),
        words=(b"=", b"handler:", b"/s", b"\n"),
        share=0.5,
    ),
    Parser(
        name="retry_after",
        check=check_retry_after,
        grammar=lambda: near(st.one_of(_DATES, DIGITS, pick("Fri, 31 Dec 1999 23:59:59 GMT"))),
        examples=encoded(
            ["120", "Mon, 21 Sep 2026 14:14:00 GMT", "Monday, 21-Sep-26 14:14:00 GMT", "Mon Sep 21 14:14:00 2026"]
        ),
        words=(b"Mon", b"GMT", b":", b"+0000", b"-2400", b"99999"),
    ),
)
