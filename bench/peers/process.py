"""Runs a peer's program and speaks the protocol that all of them share.

A program prints lines of JSON; the last one is its result. `{"mark": "loaded"}` and `{"mark": "done"}` enclose
what is measured: at each of them it waits for a line on its input, so that the clocks can be looked at while no
process starts or ends.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from bench.peers.install import ROOT

TOLD_CHARACTERS: Final = 400


class StepFailed(Exception):
    """There is no figure, and why."""


class StepSkipped(StepFailed):
    """It can't be done yet, which is nobody's fault."""


def end_in_order_on_sigterm() -> None:
    """When `timeout` or `kill` ends this process, its servers and programs are ended too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def run_program(
    command: list[str],
    *,
    limit_s: float,
    on_mark: Callable[[str, int], None] = lambda mark, pid: None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run it to its end and give its result.

    `on_mark` gets each mark and the program's process id while the program waits. StepFailed when the program
    fails, takes longer than `limit_s` or prints no result. Nothing that it has started is left behind.
    """
    with tempfile.TemporaryFile("w+") as told:
        program = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            start_new_session=True,
        )
        overdue = threading.Timer(limit_s, _end, (program,))
        overdue.start()
        try:
            result = _follow(program, on_mark)
            code = program.wait()
        finally:
            in_time = overdue.is_alive()
            overdue.cancel()
            _end(program)
            program.communicate()
        told.seek(0)
        reason = _last_line(told.read())
    if not in_time:
        raise StepFailed(f"still running after {limit_s:.0f} s")
    if code:
        raise StepFailed(reason or f"ended with code {code}")
    if result is None:
        raise StepFailed("printed no result")
    return result


def _follow(program: subprocess.Popen[str], on_mark: Callable[[str, int], None]) -> dict[str, Any] | None:
    assert program.stdout is not None
    assert program.stdin is not None
    result: dict[str, Any] | None = None
    for line in program.stdout:
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        if "mark" not in said:
            result = said
            continue
        on_mark(said["mark"], program.pid)
        with suppress(BrokenPipeError):  # it has ended: its code says why
            program.stdin.write("go\n")
            program.stdin.flush()
    return result


def _end(program: subprocess.Popen[str]) -> None:
    """Its whole session: workers must not outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def _last_line(text: str) -> str:
    """The line that names the error: the last one of Python's, the first with `Error` of JavaScript's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line and not line.startswith("at ")]
    return (named or lines or [""])[-1][:TOLD_CHARACTERS]
