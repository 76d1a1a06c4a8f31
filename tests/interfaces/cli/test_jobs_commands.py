"""`tickwheel jobs`, `runs` and `dlq` against a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import PATIENCE_S, ServerProcess, wait_until

Call = Callable[..., Result]
LATER = ("--in", "1h", "--handler", "work")


def created(call: Call, *flags: str) -> str:
    result = call("jobs", "create", *flags, "--json")
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["job_id"])


def shown(call: Call, *arguments: str) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ended(server: ServerProcess, job_id: str) -> str:
    return server.client.wait_for(job_id, timeout_seconds=PATIENCE_S).run_id


def test_flags_become_the_fields_of_the_api(call: Call, server: ServerProcess) -> None:
    job_id = created(
        call,
        *("--name", "all-flags", "--cron", "30 2 * * *", "--tz", "Europe/Berlin"),
        *("--endpoint", "http://127.0.0.1:1/x", "--method", "put", "--header", "X-One: 1", "--header", "X-Two:2"),
        *("--timeout", "1m", "--payload", '{"a":  1}', "--priority", "high", "--retries", "5"),
        *("--tag", "one", "--tag", "two", "--catch-up", "skip", "--overlap", "buffer_one", "--deadline", "1h30m"),
        *("--concurrency", "key:a=b=2/1", "--concurrency", "job_name=1"),
        *(
            "--start-at",
            "2030-01-01T00:00:00Z",
            "--end-at",
            "2031-01-01T00:00:00Z",
            "--idempotency-key",
            "flags-1",
        ),
    )
    job = shown(call, "jobs", "get", job_id)
    wanted = {
        "job_name": "all-flags",
        "schedule_type": "CRON",
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "priority": "HIGH",
        "payload": {"a": 1},
        "tags": ["one", "two"],
        "overlap": "buffer_one",
        "concurrency": [
            {"scope": "key", "key": "a=b", "limit": 2, "max_waiting": 1},
            {"scope": "job_name", "limit": 1},
        ],
        "deadline_seconds": 5400,
        "start_at": "2030-01-01T00:00:00.000Z",
        "end_at": "2031-01-01T00:00:00.000Z",
        "idempotency_key": "flags-1",
    }
    assert {name: job[name] for name in wanted} == wanted
    assert job["catch_up"]["policy"] == "skip"
    assert job["retry_policy"]["max_retries"] == 5
    target = job["target"]
    assert (target["endpoint"], target["method"], target["timeout_seconds"]) == ("http://127.0.0.1:1/x", "PUT", 60)
    assert set(target["headers"]) == {"X-One", "X-Two"}


def test_payload_travels_byte_for_byte(call: Call, server: ServerProcess, tmp_path: Path) -> None:
    payload = '{ "n": 1.0e2,\n  "s": "\\u00e9" }'
    (tmp_path / "payload.json").write_text(payload + "\n")
    for flags, stdin in (
        (("--payload", payload), ""),
        (("--payload", f"@{tmp_path}/payload.json"), ""),
        (("--payload", "-"), payload),
    ):
        result = call("jobs", "create", *LATER, *flags, "--json", stdin=stdin)
        job_id = json.loads(result.stdout)["job_id"]
        assert payload in call("jobs", "get", job_id, "--json").stdout


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ((), ["--in", "--endpoint"]),
        (("--in", "5s"), ["--endpoint"]),
        (("--in", "5s", "--at", "2030-01-01T00:00:00Z", "--now", "--handler", "x"), ["--at"]),
        (("--now", "--handler", "x", "--endpoint", "http://127.0.0.1:1/"), ["--handler"]),
        (("--now", "--handler", "x", "--header", "nonsense", "--payload", "{"), ["--header", "--payload"]),
        (("--now", "--handler", "x", "--payload", "hello"), ["--payload"]),
        (("--now", "--handler", "x", "--payload", "[" * 5_000), ["--payload"]),
        (("--now", "--handler", "x", "--payload", "@/no/such/file"), ["--payload"]),
        (("--in", "soon", "--handler", "x"), ["--in"]),
        (("--cron", "* * *", "--handler", "x", "--priority", "URGENT"), ["cron_expression", "priority"]),
        (("--batch", "x", "--name", "y", "--replace"), ["--name", "--replace"]),
        (("--file", "/no/such/file"), ["/no/such/file"]),
        (("--file", "x", "--now"), ["--now"]),
        (("--replace", *LATER), ["--name"]),
    ],
)
def test_mistakes_are_named_all_at_once(
    call: Call, server: ServerProcess, flags: tuple[str, ...], named: list[str]
) -> None:
    result = call("jobs", "create", *flags)
    assert result.exit_code == ExitCode.USAGE
    assert result.stdout == ""
    for name in named:
        assert name in result.stderr
    assert "Traceback" not in result.output


def test_job_from_a_file_and_from_standard_input(call: Call, server: ServerProcess, tmp_path: Path) -> None:
    job = '{"delay_seconds": 3600, "job_name": "from-file", "target": {"type": "HANDLER", "name": "work"}}'
    (tmp_path / "job.json").write_text(job)
    first = created(call, "--file", str(tmp_path / "job.json"))
    result = call("jobs", "create", "--file", "-", "--json", stdin=job)
    assert shown(call, "jobs", "get", first)["job_name"] == "from-file"
    assert json.loads(result.stdout)["job_id"] != first


def test_same_key_gives_the_same_job_and_another_request_is_a_conflict(call: Call, server: ServerProcess) -> None:
    first = call("jobs", "create", *LATER, "--idempotency-key", "same-key")
    again = call("jobs", "create", *LATER, "--idempotency-key", "same-key")
    assert first.stdout == again.stdout
    other = call("jobs", "create", "--in", "2h", "--handler", "work", "--idempotency-key", "same-key")
    assert other.exit_code == ExitCode.CONFLICT
    assert "same-key" in other.stderr


@pytest.mark.pitfall(28)
def test_replace_by_name_makes_one_job_however_often_it_is_called(call: Call, server: ServerProcess) -> None:
    flags = ("--name", "deployed", "--replace", "--cron", "0 3 * * *", "--handler", "work")
    ids = {created(call, *flags) for _ in range(3)}
    assert len(ids) == 1
    result = call("jobs", "create", *flags[:-1], "broken")
    assert result.exit_code == 0
    assert "version 2" in result.stdout


def test_edit_pause_resume_trigger_cancel_delete(call: Call, server: ServerProcess) -> None:
    job_id = created(call, "--cron", "0 0 1 1 *", "--handler", "work")
    edited = shown(call, "jobs", "edit", job_id, "--cron", "0 8 * * *", "--priority", "low", "--if-version", "1")
    assert (edited["cron_expression"], edited["priority"], edited["version"]) == ("0 8 * * *", "LOW", 2)
    late = call("jobs", "edit", job_id, "--priority", "HIGH", "--if-version", "1")
    assert late.exit_code == ExitCode.CONFLICT
    assert call("jobs", "edit", job_id).exit_code == ExitCode.USAGE
    assert shown(call, "jobs", "pause", job_id)["status"] == "PAUSED"
    assert "is paused" in call("jobs", "pause", job_id).stdout
    assert shown(call, "jobs", "resume", job_id)["status"] == "SCHEDULED"
    run = shown(call, "jobs", "trigger", job_id)
    assert server.client.wait_for(run["run_id"], timeout_seconds=PATIENCE_S).succeeded
    assert shown(call, "jobs", "cancel", job_id) == {"status": "CANCELLED"}
    assert call("jobs", "cancel", job_id).exit_code == 0
    assert shown(call, "jobs", "delete", job_id) == {"job_id": job_id, "deleted": True}
    for arguments in (("get", job_id), ("delete", job_id), ("pause", job_id), ("trigger", job_id)):
        assert call("jobs", *arguments).exit_code == ExitCode.NOT_FOUND


def test_lists_are_tables_for_people_and_pages_for_programs(call: Call, server: ServerProcess) -> None:
    for number in range(5):
        created(call, *LATER, "--name", f"listed-{number}", "--tag", "listed")
    page = shown(call, "jobs", "list", "--tag", "listed", "--limit", "2")
    assert [job["job_name"] for job in page["jobs"]] == ["listed-4", "listed-3"]
    following = shown(call, "jobs", "list", "--tag", "listed", "--limit", "2", "--cursor", page["next_cursor"])
    assert [job["job_name"] for job in following["jobs"]] == ["listed-2", "listed-1"]
    everything = shown(call, "jobs", "list", "--tag", "listed", "--limit", "2", "--all")
    assert [job["job_name"] for job in everything["jobs"]] == [f"listed-{n}" for n in (4, 3, 2, 1, 0)]
    table = call("jobs", "list", "--tag", "listed", "--limit", "2")
    lines = table.stdout.splitlines()
    assert lines[0].split() == ["JOB", "NAME", "STATUS", "WHEN", "NEXT", "RUN", "LAST", "RUN", "CALLS"]
    assert len(lines) == 3
    assert f"--cursor {page['next_cursor']}" in table.stderr
    assert call("jobs", "list", "--tag", "nowhere").stderr == "No jobs.\n"
    assert call("jobs", "list", "--cursor", "zzz").exit_code == ExitCode.USAGE
    assert call("jobs", "list", "--tenant", "somebody-else").stdout == ""


def test_run_shows_its_failed_attempt(call: Call, server: ServerProcess) -> None:
    job_id = created(call, "--now", "--handler", "broken")
    run_id = ended(server, job_id)
    table = call("jobs", "runs", job_id).stdout
    assert run_id in table
    assert "FAILED" in table
    text = call("runs", "get", run_id).stdout
    assert "it is broken" in text
    assert "ATTEMPT" in text
    (attempt,) = shown(call, "runs", "get", run_id)["attempts"]
    assert attempt["outcome"] == "permanent"
    assert call("runs", "cancel", run_id).exit_code == ExitCode.CONFLICT
    assert call("runs", "get", "run_nonsense").exit_code in (ExitCode.NOT_FOUND, ExitCode.USAGE)


def test_waiting_run_is_cancelled_by_its_id(call: Call, server: ServerProcess) -> None:
    job_id = created(call, "--now", "--handler", "nap", "--payload", "60")
    run_id = wait_until(lambda: (last := server.client.get(job_id).last_run) and last.run_id, why="it has begun")
    assert "is cancelled" in call("runs", "cancel", run_id).stdout
    assert server.client.get_run(run_id).status == "CANCELLED"


def test_dead_letters_are_listed_redriven_and_deleted(call: Call, server: ServerProcess) -> None:
    job_id = created(call, "--now", "--handler", "broken")
    run_id = ended(server, job_id)
    assert run_id in call("dlq", "list").stdout
    listed = shown(call, "dlq", "list", "--limit", "1000")["dead_letters"]
    (letter,) = (letter for letter in listed if letter["run_id"] == run_id)
    assert letter["cause"]
    assert shown(call, "dlq", "redrive", run_id) == {
        "redriven_count": 1,
        "redriven": [run_id],
        "not_found": [],
        "refused": [],
    }
    wait_until(lambda: len(server.client.get_run(run_id).attempts) == 2, why="it fails again")
    wait_until(lambda: server.client.get_run(run_id).ended, why="it is dead again")
    assert shown(call, "dlq", "delete", run_id) == {"run_id": run_id, "deleted": True}
    assert run_id not in call("dlq", "list").stdout
    assert server.client.get_run(run_id).status == "FAILED"


def test_dead_letters_are_grouped_and_redriven_by_cause_and_job(call: Call, server: ServerProcess) -> None:
    job_id = created(call, "--now", "--handler", "broken")
    run_id = ended(server, job_id)
    (letter,) = shown(call, "dlq", "list", "--job", job_id)["dead_letters"]
    assert letter["run_id"] == run_id
    causes = [group["cause"] for group in shown(call, "dlq", "causes")["causes"]]
    assert letter["cause"] in causes
    assert letter["cause"] in call("dlq", "causes").stdout
    assert shown(call, "dlq", "redrive", "--job", job_id, "--cause", "no such cause")["redriven_count"] == 0
    assert shown(call, "dlq", "redrive", "--job", job_id)["redriven"] == [run_id]


def test_what_is_no_dead_letter_is_named(call: Call, server: ServerProcess) -> None:
    run_id = ended(server, created(call, "--now", "--handler", "work"))
    well = call("dlq", "redrive", run_id)
    assert well.exit_code == ExitCode.CONFLICT
    assert run_id in well.stderr
    unknown = "run_00SNM3WAC0001TFRNGP4RV4CNK00001KB881SQ0"
    absent = call("dlq", "redrive", unknown)
    assert absent.exit_code == ExitCode.NOT_FOUND
    assert absent.stderr == f"Error: {unknown} is no dead letter\n"
    assert call("dlq", "delete", unknown).exit_code == ExitCode.NOT_FOUND


def test_redrive_wants_ids_or_all(call: Call, server: ServerProcess) -> None:
    assert call("dlq", "redrive").exit_code == ExitCode.USAGE
    assert call("dlq", "redrive", "--all", "run_x").exit_code == ExitCode.USAGE
    assert call("dlq", "redrive", "--cause", "x", "run_x").exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--url", "http://127.0.0.1:9"), ExitCode.UNREACHABLE),
        (("--url", "ftp://127.0.0.1"), ExitCode.USAGE),
        (("--url", "127.0.0.1:8080"), ExitCode.USAGE),
        (("--token", "with\nnewline"), ExitCode.USAGE),
    ],
)
def test_connection_that_can_not_be_is_one_clear_line(call: Call, arguments: tuple[str, ...], code: int) -> None:
    result = call("jobs", "list", *arguments)
    assert result.exit_code == code
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in result.output


def test_server_that_is_no_tickwheel_is_told(call: Call, server: ServerProcess) -> None:
    result = call("jobs", "list", "--url", f"{server.url}/echo")
    assert result.exit_code == ExitCode.FAILED
    assert result.stderr.startswith("Error: ")


def test_token_variable_may_hold_several(call: Call, server: ServerProcess) -> None:
    tokens = "the-new-token-of-today, the-old-token-of-yesterday"
    assert call("jobs", "list", TICKWHEEL_TOKEN=tokens).exit_code == 0


def test_texts_of_others_send_no_escape_sequences_to_the_terminal(call: Call, server: ServerProcess) -> None:
    run_id = ended(server, created(call, "--now", "--handler", "evil"))
    for arguments in (("runs", "get", run_id), ("dlq", "list")):
        text = call(*arguments).stdout
        assert "cleared" in text
        assert "\x1b" not in text


def test_a_name_in_place_of_an_id_is_told_where_names_are_found(call: Call, server: ServerProcess) -> None:
    result = call("jobs", "get", "nightly")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "name_prefix" in result.stderr
