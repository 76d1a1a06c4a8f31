"""What the command line reads: jobs in files and lines, flags, and questions about cron expressions."""

import io
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from hypothesis import strategies as st

from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.request import split_batch
from tickwheel.interfaces.cli.job_files import numbered_lines, read_object
from tickwheel.interfaces.cli.job_flags import read_flags
from tickwheel.interfaces.cli.plan import _Amount
from tickwheel.interfaces.cli.preview import _answer as answered
from tickwheel.interfaces.client.batches import Batch, with_fields
from tickwheel.interfaces.worker.concurrency import MOST, parse_concurrency

from ..parser import Parser, encoded, to_text
from ..strategies import DIGITS, joined, maybe, near, pick
from .request_bodies import JOBS, WORDS, job_bodies, json_texts, written

_FILE = Path(tempfile.gettempdir()) / f"tickwheel-fuzz-{os.getpid()}.json"
_GOOD = b'{"idempotency_key":"1"}'
_FLAGS = (
    *("name", "delay", "at", "cron", "tz", "endpoint", "handler", "method", "sign_with", "timeout", "payload"),
    *("priority", "retries", "catch_up", "overlap", "deadline", "start_at", "end_at"),
)
_NO_FLAGS: dict[str, Any] = dict.fromkeys(_FLAGS) | dict.fromkeys(("tags", "concurrency", "headers"), ())


def _forget() -> None:
    _FILE.unlink(missing_ok=True)


def check_job_lines(data: bytes) -> bool:
    """A line spoils no other: between two good ones of a request it is one item."""
    taken = False
    for _, line in numbered_lines(io.BytesIO(data)):
        try:
            item = with_fields(line, key="k-1", tenant_id="t")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        taken = True
        batch = Batch()
        for one in (_GOOD, item, _GOOD):
            assert batch.has_room(one)
            batch.add(one)
        try:
            items = split_batch(batch.take())
        except InvalidRequest as error:
            raise AssertionError("a line breaks the whole request") from error
        assert (len(items), items[0], items[2]) == (3, _GOOD, _GOOD)
        assert {"idempotency_key", "tenant_id"} <= msgspec.json.decode(item, type=dict[str, msgspec.Raw]).keys()
    return taken


def check_job_file(data: bytes) -> bool:
    """A file with one job; the same as the payload of a job that flags describe, and as these flags' text."""
    _FILE.write_bytes(data)
    text, taken = to_text(data), False
    given: tuple[dict[str, Any], ...] = (
        {"payload": f"@{_FILE}"},
        {"payload": text.removeprefix("@"), "tags": (text,)},
        {"concurrency": (text,), "headers": (text,)},
    )
    reading = (partial(read_object, _FILE), *(partial(read_flags, _NO_FLAGS | flags) for flags in given))
    for read in reading:
        try:
            assert isinstance(read(), dict)
        except InvalidRequest as error:
            assert all(problem.message for problem in error.problems)
            continue
        taken = True
    return taken


def check_question(data: bytes) -> bool:
    answer = answered(data)
    assert not answer.get("error", "").startswith("internal"), answer["error"]
    assert len(msgspec.json.encode(answer)) < 200_000  # a thousand times and their notes
    return "next" in answer


@st.composite
def _questions(draw: st.DrawFn) -> bytes:
    question = {
        "expr": draw(pick("* * * * *", "0 2 29 2 *", "@daily", "x", "", "0 0 LW * 5L")),
        "tz": draw(pick("UTC", "Europe/Berlin", "Mars/Olympus", "")),
        "start": draw(pick("2026-10-22T14:30:00Z", "9999-12-31T23:59:59.999Z", "1969-12-31T23:59:59Z", "now")),
        "count": draw(st.one_of(st.integers(-1, 200), st.integers())),
    }
    for name in draw(st.lists(st.sampled_from([*question, "x"]), max_size=2)):
        question[name] = draw(st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)))
    return written(draw, question)


def check_amounts(data: bytes) -> bool:
    """Numbers of the command line: how much, and how many at a time."""
    text = to_text(data)
    try:
        amount = _Amount(0, 10**12).convert(text, None, None)
    except click.UsageError:
        taken = False
    else:
        assert 0 <= amount <= 10**12
        taken = True
    problems: list[object] = []
    low, high = parse_concurrency(text, problems)  # type: ignore[arg-type]  # it only adds to them
    assert problems or 1 <= low <= high <= MOST
    assert len(repr(problems)) < 1_000
    return taken or not problems


PARSERS = (
    Parser(
        name="job_lines",
        check=check_job_lines,
        grammar=lambda: st.lists(st.one_of(job_bodies(), json_texts()), max_size=4).map(b"\n".join),
        examples=(b"\n".join(JOBS), b'{"a":1}\r\n\n{"b":"\\u0000"}', b"{}"),
        words=(*WORDS, b"\n", b'"idempotency_key":1', b"],[", b"}{"),
    ),
    Parser(
        name="job_file",
        check=check_job_file,
        grammar=lambda: st.one_of(job_bodies(), json_texts()),
        examples=JOBS,
        words=WORDS,
        share=0.5,
        close=_forget,
    ),
    Parser(
        name="preview_line",
        check=check_question,
        grammar=_questions,
        examples=(
            json.dumps({"expr": "30 2 * * *", "tz": "Europe/Berlin", "count": 3}).encode(),
            b'{"expr":"@daily","start":"2026-03-28T12:00:00Z"}',
        ),
        words=(*WORDS, b'"count":', b"9999-12-31"),
        share=0.5,
    ),
    Parser(
        name="amounts",
        check=check_amounts,
        grammar=lambda: near(joined(DIGITS, maybe(joined(pick("..", "...", "-", "."), DIGITS)))),
        examples=encoded(["50", "5..200", "1e3", "0.5", "1..10000"]),
        words=(b"..", b"nan", b"inf", b"1e400", b"_"),
        share=0.5,
    ),
)
