"""Every rejection names the field, the token, and what is allowed or what to write instead, and comes at once."""

from time import thread_time

import pytest

from tickwheel.domain.cron import CronError, parse_cron

DAYS = "allowed: 1-31, *, ?, L, LW, L-1 to L-30, 1W to 31W"
WEEK = "allowed: 0-7 (0 and 7 = Sunday) or SUN-SAT"
ORDER = "5 fields (minute hour day-of-month month day-of-week) or 6 (the same with the second first)"

OUT_OF_RANGE = [
    ("60 * * * * *", "second", "'60'", "allowed: 0-59"),
    ("60 * * * *", "minute", "'60'", "allowed: 0-59"),
    ("1,2,99 * * * *", "minute", "'99'", "allowed: 0-59"),
    ("50-60 * * * *", "minute", "'50-60'", "allowed: 0-59"),
    ("60/5 * * * *", "minute", "'60/5'", "allowed: 0-59"),
    ("99999999999999999999999 * * * *", "minute", "'99999999999999999999999'", "allowed: 0-59"),
    ("0 24 * * *", "hour", "'24'", "allowed: 0-23"),
    ("0 0 0 * *", "day-of-month", "'0'", DAYS),
    ("0 0 32 * *", "day-of-month", "'32'", DAYS),
    ("0 0 0W * *", "day-of-month", "'0W'", "write 1W to 31W"),
    ("0 0 32W * *", "day-of-month", "'32W'", "write 1W to 31W"),
    ("0 0 L-31 * *", "day-of-month", "'L-31'", "write L-1 to L-30"),
    ("0 0 L-0 * *", "day-of-month", "'L-0'", "write L-1 to L-30, or L"),
    ("0 0 * 0 *", "month", "'0'", "allowed: 1-12 or JAN-DEC"),
    ("0 0 * 13 *", "month", "'13'", "allowed: 1-12 or JAN-DEC"),
    ("0 0 * * 8", "day-of-week", "'8'", WEEK),
    ("0 0 * * 8L", "day-of-week", "'8L'", WEEK),
    ("0 0 * * 8#1", "day-of-week", "'8#1'", WEEK),
    ("0 0 * * 1#0", "day-of-week", "'1#0'", "1 to 5"),
    ("0 0 * * 1#6", "day-of-week", "'1#6'", "1 to 5"),
]
REVERSED_OR_EMPTY = [
    ("30-10 * * * *", "minute", "'30-10'", "write 30-59,0-10"),
    ("0 22-6 * * *", "hour", "'22-6'", "write 22-23,0-6"),
    ("0 0 25-5 * *", "day-of-month", "'25-5'", "write 25-31,1-5"),
    ("0 0 * DEC-FEB *", "month", "'DEC-FEB'", "write DEC-12,1-FEB"),
    ("0 0 * * FRI-MON", "day-of-week", "'FRI-MON'", "write FRI-7,0-MON"),
    ("*/0 * * * *", "minute", "'*/0'", "a step is 1 or more"),
    ("0 0-5/00 * * *", "hour", "'0-5/00'", "a step is 1 or more"),
    ("1,,2 * * * *", "minute", "'1,,2'", "remove the extra comma"),
    (",1 * * * *", "minute", "',1'", "remove the extra comma"),
    ("0 0 L, * *", "day-of-month", "'L,'", "remove the extra comma"),
    ("0 0 * * ,", "day-of-week", "','", "remove the extra comma"),
    ("-5 * * * *", "minute", "'-5'", "allowed: 0-59"),
    ("5- * * * *", "minute", "'5-'", "allowed: 0-59"),
    ("/5 * * * *", "minute", "'/5'", "allowed: 0-59"),
    ("*/ * * * *", "minute", "'*/'", "allowed: 0-59"),
    ("*/-5 * * * *", "minute", "'*/-5'", "allowed: 0-59"),
    ("1/2/3 * * * *", "minute", "'1/2/3'", "allowed: 0-59"),
    ("1-2-3 * * * *", "minute", "'1-2-3'", "allowed: 0-59"),
]
WRONG_PLACE = [
    ("MON * * * *", "minute", "'MON'", "belongs in the day-of-week field"),
    ("0 0 jan * *", "day-of-month", "'jan'", "belongs in the month field"),
    ("0 0 * MON *", "month", "'MON'", "belongs in the day-of-week field"),
    ("0 0 * * JAN", "day-of-week", "'JAN'", "belongs in the month field"),
    ("0 0 * * MONDAY", "day-of-week", "'MONDAY'", "write MON"),
    ("L * * * *", "minute", "'L'", "L or W that does not belong here"),
    ("0 0 * L *", "month", "'L'", "L or W that does not belong here"),
    ("0 0 * * L", "day-of-week", "'L'", "write SATL"),
    ("0 0 * * 15W", "day-of-week", "'15W'", "L or W that does not belong here"),
    ("0 0 W * *", "day-of-month", "'W'", "L or W that does not belong here"),
    ("0 0 1-5W * *", "day-of-month", "'1-5W'", "L or W that does not belong here"),
    ("0 0 15W/2 * *", "day-of-month", "'15W/2'", "L or W that does not belong here"),
    ("0 0 L/2 * *", "day-of-month", "'L/2'", "L or W that does not belong here"),
    ("0 0 L-3W * *", "day-of-month", "'L-3W'", "write L-1 to L-30"),
    ("0 0 5L * *", "day-of-month", "'5L'", "L or W that does not belong here"),
    ("0 0 1#2 * *", "day-of-month", "'1#2'", "write MON#2"),
    ("0 0 * 1#2 *", "month", "'1#2'", "write MON#2"),
    ("0 0 * * #2", "day-of-week", "'#2'", WEEK),
    ("0 0 * * MON#", "day-of-week", "'MON#'", "1 to 5"),
    ("0 0 * * MON#2#3", "day-of-week", "'MON#2#3'", "1 to 5"),
    ("0 0 * * MON-FRI#2", "day-of-week", "'MON-FRI#2'", "MON#2,TUE#2"),
    ("0 0 * * MON-FRIL", "day-of-week", "'MON-FRIL'", "MONL,TUEL"),
    ("? * * * *", "minute", "'?'", "in a day field"),
    ("0 0 1,? * *", "day-of-month", "'?'", "only stands alone"),
    ("0 0 ?/2 * *", "day-of-month", "'?/2'", "only stands alone"),
    ("0 0 * ? *", "month", "'?'", "in a day field"),
    ("** * * * *", "minute", "'**'", "only stands alone"),
    ("*-5 * * * *", "minute", "'*-5'", "only stands alone"),
    ("5* * * * *", "minute", "'5*'", "only stands alone"),
]
NOT_PLAIN = [
    ("+5 * * * *", "minute", "'+5'", "not a plain number"),
    ("1_0 * * * *", "minute", "'1_0'", "not a plain number"),
    ("1.5 * * * *", "minute", "'1.5'", "not a plain number"),
    ("0x5 * * * *", "minute", "'0x5'", "not a plain number"),
    ("\u0663 * * * *", "minute", "'\\u0663'", "U+0663"),
    ("\uff15 * * * *", "minute", "'\\uff15'", "use an ASCII digit"),
    ("1\u20135 * * * *", "minute", "'1\\u20135'", "use '-'"),
    ("0 0 * * MON\u2212FRI", "day-of-week", "'MON\\u2212FRI'", "use '-'"),
    ("*\u00a0* * * * *", "minute", "U+00A0", "use ' '"),
    ("\ud800 * * * *", "minute", "'\\ud800'", "U+D800"),
    ("* * * * *\n", "day-of-week", "'*\\n'", "control character U+000A"),
    ("\n* * * * *", "minute", "'\\n*'", "control character U+000A"),
    ("* *\r * * *", "hour", "'*\\r'", "control character U+000D"),
    ("* * *\x00 * *", "day-of-month", "'*\\x00'", "control character U+0000"),
    ("@daily\x0b", None, "'@daily\\x0b'", "control character U+000B"),
    ("\ufeff@daily", None, "'\\ufeff@daily'", "U+FEFF"),
]
OTHER_TOOLS = [
    ("H * * * *", "minute", "'H'", "write a fixed value"),
    ("H/15 * * * *", "minute", "'H/15'", "write a fixed value"),
    ("H(0-29)/10 * * * *", "minute", "'H(0-29)/10'", "write a fixed value"),
    ("0 R * * *", "hour", "'R'", "write a fixed value"),
    ("0~30 * * * *", "minute", "'0~30'", "write a fixed value"),
    ("@reboot", None, "'@reboot'", "there are no intervals"),
    ("@every 5m", None, "'@every'", "there are no intervals"),
    ("@EVERY 1h30m", None, "'@every'", "there are no intervals"),
    ("@fortnightly", None, "'@fortnightly'", "@hourly, @daily"),
    ("@", None, "'@'", "@hourly, @daily"),
    ("@daily 5", None, "'5'", "trailing text"),
    ("0 @daily * * *", "hour", "'@daily'", "allowed: 0-23"),
    ("TZ=Europe/Berlin 0 2 * * *", None, "'TZ=Europe/Berlin'", "timezone"),
    ("CRON_TZ=UTC 0 2 * * *", None, "'CRON_TZ=UTC'", "timezone"),
    ("0 2 * * * /bin/true", "day-of-week", "'/bin/true'", "trailing text"),
    ("0 2 * * * true", "day-of-week", "'true'", WEEK),
    ("0 2 * * * root /bin/true", None, "7 fields", "command, comment or year"),
    ("0 2 * * * # nightly", None, "7 fields", "command, comment or year"),
    ("0 2 * * * cd /srv && make report", None, "10 fields", "command, comment or year"),
    ("0 10 * * ? *", "month", "'?'", "EventBridge's form, minute first and a year last; write '0 10 * * *'"),
    ("0 18 ? * MON-FRI *", "hour", "'?'", "write '0 18 * * MON-FRI'"),
    ("15 10 ? * 6L 2026-2028", "hour", "'?'", "write '15 10 * * 5L' (weekdays count from 0"),
    ("0 8 1 * ? 2027", "month", "'?'", "start_at and end_at for '2027'"),
    ("0/15 10 ? * 2#1,7 *", "hour", "'?'", "write '0/15 10 * * 1#1,6'"),
    ("cron(0 10 * * ? *)", None, "'cron(...)'", "write '0 10 * * *'"),
    ("CRON(0 10 * *)", None, "'cron(...)'", "without the year"),
    ("rate(5 minutes)", None, "'rate(...)'", "there are no intervals"),
    ("at(2026-10-01T00:00:00)", None, "'at(...)'", "execute_at"),
    ("0 0 12 ? * MON 2027", None, "7 fields", "becomes '0 0 12 * * MON'"),
    ("0 0 12 ? * 2-6 2027", None, "7 fields", "becomes '0 0 12 * * 1-5' (weekdays count from 0"),
]
WRONG_COUNT = [
    ("", None, "empty", ORDER),
    (" \t ", None, "empty", ORDER),
    ("5", None, "1 field;", ORDER),
    ("* * * *", None, "4 fields", ORDER),
    ("* * * * * * *", None, "7 fields", ORDER),
    ("* * * * * * * *", None, "8 fields", ORDER),
    ("0" * 257, None, "257 characters", "at most 256"),
    ("*" + " " * 300 + "* * * *", None, "308 characters", "at most 256"),
]
NEVER = [
    ("0 0 30 2 *", "day-of-month", "'30' never fires", "allowed: 1-29 for month '2'"),
    ("0 0 30,31 FEB ?", "day-of-month", "'30,31' never fires", "allowed: 1-29 for month 'FEB'"),
    ("0 0 31 4,6,9,11 *", "day-of-month", "'31' never fires", "allowed: 1-30"),
    ("0 0 31W 4 *", "day-of-month", "'31W' never fires", "allowed: 1-30"),
    ("0 0 L-29 2 *", "day-of-month", "'L-29' never fires", "month '2'"),
    ("0 0 30 2 */2", "day-of-month", "'30' never fires", "allowed: 1-29"),
    ("0 0 15W * */7", "day-of-month", "'15W' never fires", "day-of-week '*/7'"),
    ("0 0 */30 2 1#5", "day-of-month", "'*/30' never fires", "day-of-week '1#5'"),
]
REJECTS = OUT_OF_RANGE + REVERSED_OR_EMPTY + WRONG_PLACE + NOT_PLAIN + OTHER_TOOLS + WRONG_COUNT + NEVER


@pytest.mark.parametrize(("expression", "field", "token", "remedy"), REJECTS)
def test_reject_names_field_token_and_remedy(expression: str, field: str | None, token: str, remedy: str) -> None:
    started = thread_time()
    with pytest.raises(CronError) as caught:
        parse_cron(expression)
    assert thread_time() - started < 0.1
    message = str(caught.value)
    assert caught.value.field == field
    assert field is None or message.startswith(f"{field}: ")
    assert token in message
    assert remedy in message
    assert message.isascii()
    assert message.isprintable()


def test_longest_expression_is_accepted() -> None:
    assert parse_cron("0" * 248 + " * * * *").next_after(0) == 3_600_000


def test_job_that_only_fits_into_the_skipped_hour_is_rejected_for_that_zone() -> None:
    started = thread_time()
    with pytest.raises(CronError) as caught:
        parse_cron("*/10 2 * 3 SUN#2", "America/New_York")
    assert thread_time() - started < 0.1
    assert caught.value.field == "hour"
    assert "'2' never fires in America/New_York" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("*/10 2 * 3 SUN#2", "UTC"),
        ("*/10 2 * 3 SUN#2", "Europe/Berlin"),
        ("*/10 2 * 3 SUN#3", "America/New_York"),
        ("*/10 2 8 3 *", "America/New_York"),
        ("0 2 * 3 SUN#2", "America/New_York"),
    ],
)
def test_job_that_sometimes_fits_beside_the_skipped_hour_is_accepted(expression: str, zone: str) -> None:
    assert parse_cron(expression, zone).next_after(1_767_225_600_000) is not None


@pytest.mark.parametrize(
    ("zone", "remedy"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("America/New York", "did you mean 'America/New_York'?"),
        ("", "use a name such as"),
        ("+02:00", "use a name such as"),
        ("UTC\x00", "tzdata"),
    ],
)
def test_unknown_zone_is_a_cron_error_of_the_timezone(zone: str, remedy: str) -> None:
    with pytest.raises(CronError) as caught:
        parse_cron("* * * * *", zone)
    assert caught.value.field == "timezone"
    assert str(caught.value).startswith(ascii(zone))
    assert remedy in str(caught.value)
