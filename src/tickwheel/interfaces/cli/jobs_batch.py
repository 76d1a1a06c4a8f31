"""Creates many jobs from JSON lines, thousands per request, with a progress bar once it takes time."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from tickwheel.interfaces.cli.api import Api
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.job_files import STDIN, numbered_lines, open_lines
from tickwheel.interfaces.cli.output import print_json
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.batches import Batch, with_fields
from tickwheel.interfaces.client.job_fields import new_key
from tickwheel.interfaces.client.models import CreatedJob, RefusedJob

PATIENCE_S: Final = 2.0
"""Work that is over before shows no bar."""
LINES_SHOWN: Final = 20


class _Refusal(msgspec.Struct):
    """A line without a job, and why."""

    line: int
    code: str
    detail: str
    errors: tuple[Any, ...] = ()


class _Tally:
    """What became of the lines so far."""

    def __init__(self) -> None:
        self.job_ids: list[str] = []
        self.replayed_count = 0
        self.refusals: list[_Refusal] = []


def create_batch(api: Api, path: Path) -> None:
    """Send all lines; print what became of them. Raises `Failure` when a line has no job."""
    tally = _Tally()
    file = open_lines(path)
    try:
        with _progress(file, path) as step:
            _send_all(api, file, tally, step)
    finally:
        if path != STDIN:
            file.close()
    _report(api, tally)


def _send_all(api: Api, file: IO[bytes], tally: _Tally, step: Any) -> None:
    batch, prefix = Batch(), new_key()
    numbers: list[int] = []
    for number, line in numbered_lines(file):
        try:
            item = with_fields(line, key=f"{prefix}-{number}", tenant_id=api.tenant)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            tally.refusals.append(_Refusal(number, "malformed_json", f"not a JSON object: {error}"))
            continue
        if not batch.has_room(item):
            _send(api, batch.take(), numbers, tally)
            step(numbers)
            numbers = []
        batch.add(item)
        numbers.append(number)
    if numbers:
        _send(api, batch.take(), numbers, tally)
        step(numbers)


def _send(api: Api, body: bytes, numbers: list[int], tally: _Tally) -> None:
    answer = api.ask(calls.create_jobs(body))
    for number, result in zip(numbers, answer.results, strict=True):
        if isinstance(result, CreatedJob):
            tally.job_ids.append(result.job_id)
            tally.replayed_count += result.replayed
        else:
            tally.refusals.append(_refusal(number, result))


def _refusal(number: int, result: RefusedJob) -> _Refusal:
    return _Refusal(number, result.code, result.detail, result.errors)


@contextmanager
def _progress(file: IO[bytes], path: Path) -> Iterator[Any]:
    """Gives a function to call after each request; on a terminal it draws a bar after `PATIENCE_S`."""
    impatient = threading.Event()
    timer = threading.Timer(PATIENCE_S, impatient.set)
    timer.daemon = True
    timer.start()
    size_bytes = 0 if path == STDIN else os.fstat(file.fileno()).st_size
    bar: Any = None
    done_bytes = 0

    def step(numbers: list[int]) -> None:
        nonlocal bar, done_bytes
        if not impatient.is_set() or not size_bytes:
            return
        if bar is None:
            bar = click.progressbar(length=size_bytes, label="creating jobs", file=sys.stderr)
            bar.__enter__()
        read_bytes = file.tell()
        bar.update(read_bytes - done_bytes)
        done_bytes = read_bytes

    try:
        yield step
    finally:
        timer.cancel()
        if bar is not None:
            bar.__exit__(None, None, None)


def _report(api: Api, tally: _Tally) -> None:
    created_count = len(tally.job_ids) - tally.replayed_count
    if api.as_json:
        print_json(
            {
                "created_count": created_count,
                "replayed_count": tally.replayed_count,
                "failed_count": len(tally.refusals),
                "job_ids": tally.job_ids,
                "failures": tally.refusals,
            }
        )
    else:
        replayed = f", {tally.replayed_count:,} were there already" if tally.replayed_count else ""
        click.echo(f"{created_count:,} created{replayed}, {len(tally.refusals):,} refused")
    if tally.refusals:
        tally.refusals.sort(key=lambda refusal: refusal.line)
        lines = [f"line {refusal.line}: {refusal.detail}" for refusal in tally.refusals[:LINES_SHOWN]]
        if len(tally.refusals) > LINES_SHOWN:
            lines.append(f"and {len(tally.refusals) - LINES_SHOWN:,} more lines; --json lists them all")
        raise Failure(lines, ExitCode.FAILED)
