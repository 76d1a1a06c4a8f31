"""`jobs create --batch`: many lines, a result for each, and a bar when it takes time."""

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tickwheel.interfaces.cli import jobs_batch
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.client.batches import Batch, with_fields

from .server_process import TICKWHEEL, ServerProcess, clean_environment

GOOD = '{"schedule_type":"DELAYED","delay_seconds":86400,"target":{"type":"HANDLER","name":"work"},"tags":["%s"]}'

DEEP = '{"a":' + "[" * 5_000


def test_bad_lines_are_named_by_number_and_fail_no_other(
    call: Callable[..., Result], server: ServerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.jsonl"
    lines = [
        GOOD % "bad-lines",
        "{",
        "",
        "[1]",
        GOOD % "bad-lines",
        DEEP,
        '{"schedule_type":"DELAYED"}',
        '{"a":1}',
    ]
    path.write_text("\n".join(lines))
    result = call("jobs", "create", "--batch", str(path), "--json")
    assert result.exit_code == ExitCode.FAILED
    answer = json.loads(result.stdout)
    assert (answer["created_count"], answer["replayed_count"], answer["failed_count"]) == (2, 0, 5)
    assert [failure["line"] for failure in answer["failures"]] == [2, 4, 6, 7, 8]
    assert len(answer["job_ids"]) == 2
    assert [line.partition(":")[2][:7] for line in result.stderr.splitlines()] == [
        " line 2",
        " line 4",
        " line 6",
        " line 7",
        " line 8",
    ]
    assert "target: is required" in result.stderr
    assert len(server.client.list(tag="bad-lines").jobs) == 2


def test_more_lines_than_a_request_holds_from_standard_input(
    call: Callable[..., Result], server: ServerProcess
) -> None:
    result = call("jobs", "create", "--batch", "-", stdin="\n".join([GOOD % "many"] * 10_001))
    assert result.exit_code == 0, result.output
    assert result.stdout == "10,001 created, 0 refused\n"


def test_keys_in_the_lines_make_a_repetition_harmless(
    call: Callable[..., Result], server: ServerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.jsonl"
    lines = [{**json.loads(GOOD % "keyed"), "idempotency_key": f"line-{n}"} for n in range(3)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    call("jobs", "create", "--batch", str(path))
    again = call("jobs", "create", "--batch", str(path))
    assert again.stdout == "0 created, 3 were there already, 0 refused\n"
    assert len(server.client.list(tag="keyed").jobs) == 3


def test_long_lists_of_refusals_are_cut(call: Callable[..., Result], server: ServerProcess) -> None:
    result = call("jobs", "create", "--batch", "-", stdin="{}\n" * 50)
    assert len(result.stderr.splitlines()) == jobs_batch.LINES_SHOWN + 1
    assert "and 30 more lines" in result.stderr


def test_tenant_is_that_of_the_command_where_the_line_names_none(
    call: Callable[..., Result], server: ServerProcess
) -> None:
    with_tenant = json.dumps({**json.loads(GOOD % "t"), "tenant_id": "own"})
    result = call("jobs", "create", "--batch", "-", "--tenant", "given", stdin=f"{GOOD % 't'}\n{with_tenant}\n")
    assert result.exit_code == 0
    for tenant in ("given", "own"):
        page = json.loads(call("jobs", "list", "--tenant", tenant, "--json").stdout)
        assert [job["tenant_id"] for job in page["jobs"]] == [tenant]


def test_values_stay_byte_for_byte() -> None:
    line = b'{"payload": {"n":  1.0e2, "n": 2}, "x":1}'
    assert b'{"n":  1.0e2, "n": 2}' in with_fields(line, key="k", tenant_id=None)


def test_batch_is_full_by_count_or_by_bytes() -> None:
    batch = Batch(limit_count=2, limit_bytes=100)
    assert batch.has_room(b"x" * 1000), "an empty one takes anything"
    batch.add(b"1" * 60)
    assert batch.has_room(b"2" * 30)
    assert not batch.has_room(b"2" * 40)
    batch.add(b"2")
    assert not batch.has_room(b"3")
    assert batch.take() == b"[" + b"1" * 60 + b",2]"
    assert len(batch) == 0


@pytest.mark.slow
def test_bar_is_drawn_on_a_terminal_when_it_takes_long(server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(f"{GOOD % 'bar'}\n" * 20_001)
    program = (
        "import sys\nfrom tickwheel.interfaces.cli import jobs_batch\n"
        "jobs_batch.PATIENCE_S = 0.0\n"
        "from tickwheel.interfaces.cli.main import main\nmain()\n"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [TICKWHEEL[0], "-c", program, "jobs", "create", "--batch", str(path), "--url", server.url],
        stdout=subprocess.PIPE,
        stderr=slave,
        env={**clean_environment(), "TERM": "xterm"},
        text=True,
    )
    os.close(slave)
    output, _ = process.communicate(timeout=50)
    drawn = b""
    while chunk := _read(master):
        drawn += chunk
    os.close(master)
    assert output == "20,001 created, 0 refused\n"
    assert b"creating jobs" in drawn
    assert b"100%" in drawn


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # the other end is closed
        return b""
