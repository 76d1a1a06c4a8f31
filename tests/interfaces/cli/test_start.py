"""Starting: what `dev` prints works as printed, and what stands in the way is said in one line."""

import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tickwheel import Client
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.terminal import LINES_HELD, Terminal

from .server_process import PATIENCE_S, TICKWHEEL, ServerProcess, clean_environment, json_of, run_cli, wait_until

TOKEN = "a-token-of-some-length"


@pytest.mark.slow
def test_the_three_lines_of_the_banner_fire_as_printed(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path / "data"), folder=tmp_path) as server:
        server.wait_for_line("One line per run")
        lines = [line for line in server.lines if line.startswith("curl ")]
        assert len(lines) == 3
        for line in lines:
            assert server.url in line
            done = subprocess.run(
                ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE_S, check=True
            )
            assert '"job_id":"job_' in done.stdout, done
            assert done.stdout.endswith("\n")
        server.wait_for_line("SUCCEEDED HTTP 200  right-now")
        server.wait_for_line("SUCCEEDED HTTP 200  hello")
        page = json_of(run_cli("jobs", "list", "--json", url=server.url))
        by_name = {job["job_name"]: job for job in page["jobs"]}
        assert by_name["each-minute"]["schedule_type"] == "CRON"
        assert by_name["each-minute"]["next_run_time_iso"].endswith(":00.000Z")
        server.terminate()
        assert server.exit_code() == 0


def test_dev_listens_on_loopback_only_and_needs_no_token(server: ServerProcess) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert json_of(run_cli("jobs", "list", "--json", url=server.url))["jobs"] is not None


def test_taken_port_is_one_line(server: ServerProcess, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    done = run_cli("dev", "--store", "memory:", "--port", port, folder=tmp_path)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == (
        f"Error: port: 127.0.0.1:{port} is taken by another program; stop it, or choose another port with --port\n"
    )


def test_foreign_address_is_one_line(tmp_path: Path) -> None:
    done = run_cli(
        *("serve", "--store", "memory:", "--port", "0", "--host", "192.0.2.1", "--token", TOKEN), folder=tmp_path
    )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.startswith("Error: host: can't listen on 192.0.2.1:0")
    assert len(done.stderr.splitlines()) == 1


def test_folder_in_use_is_one_line_that_names_the_holder(tmp_path: Path) -> None:
    with ServerProcess("--data", "data", folder=tmp_path) as first:
        done = run_cli("dev", "--data", "data", "--port", "0", folder=tmp_path)
        assert done.returncode == ExitCode.FAILED
        (line,) = done.stderr.splitlines()
        assert line.startswith("Error: data: ")
        assert f"pid {first.process.pid}" in line


def test_folder_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_cli("dev", "--data", "file/data", "--port", "0", folder=tmp_path)
    assert done.returncode == ExitCode.FAILED
    (line,) = done.stderr.splitlines()
    assert "file/data" in line
    assert "--data" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable to root")
def test_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        done = run_cli("dev", "--data", str(tmp_path / "data"), "--port", "0")
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert done.returncode == ExitCode.FAILED
    assert len(done.stderr.splitlines()) == 1


def test_missing_handlers_module_is_one_line(tmp_path: Path) -> None:
    done = run_cli("dev", "--store", "memory:", "--port", "0", "--app", "nothing_there", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    (line,) = done.stderr.splitlines()
    assert "nothing_there" in line


def test_serve_asks_for_its_token_and_refuses_loopback_webhooks(tmp_path: Path) -> None:
    with ServerProcess("--store", "memory:", "--token", TOKEN, folder=tmp_path, command="serve") as server:
        refused = run_cli("jobs", "list", url=server.url)
        assert refused.returncode == ExitCode.UNAUTHORIZED
        wrong = run_cli("jobs", "list", "--token", "another-token-of-some-length", url=server.url)
        assert wrong.returncode == ExitCode.UNAUTHORIZED
        wanted = ("jobs", "create", "--now", "--endpoint", f"{server.url}/healthz", "--method", "GET")
        loopback = run_cli(*wanted, "--token", TOKEN, url=server.url)
        assert loopback.returncode == ExitCode.FAILED
        assert "a loopback address (setting allow_loopback is off)" in loopback.stderr
        assert json_of(run_cli("jobs", "list", "--token", TOKEN, "--json", url=server.url))["jobs"] == []


@contextmanager
def dev_on_a_pipe(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], str]]:
    """(process, the reading end of its output, its address); only its first lines are read."""
    with subprocess.Popen(
        [*TICKWHEEL, "dev", "--port", "0", "--store", "memory:"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        bufsize=0,
        cwd=folder,
        env=clean_environment(),
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.read(4096).decode()
            yield process, process.stdout, "http://127.0.0.1:" + first.partition("http://127.0.0.1:")[2].split()[0]
        finally:
            process.kill()


def test_closed_output_does_not_stop_the_server(tmp_path: Path) -> None:
    """As in `tickwheel dev | head -1`."""
    with dev_on_a_pipe(tmp_path) as (process, pipe, url):
        pipe.close()
        for _ in range(2):
            job = json_of(run_cli("jobs", "create", "--now", "--endpoint", f"{url}/echo", "--json", url=url))
            wait_until(
                lambda job=job: (
                    json_of(run_cli("jobs", "get", job["job_id"], "--json", url=url))["status"] == "SUCCEEDED"
                ),
                why="it goes on firing",
            )
        assert process.poll() is None


@pytest.mark.slow
def test_output_that_nobody_reads_does_not_stop_the_server(tmp_path: Path) -> None:
    """As in `tickwheel dev | less`, or after Ctrl-S: the pipe is full and stays so."""
    with dev_on_a_pipe(tmp_path) as (process, _, url):
        with Client(url) as client:
            for _ in range(20):  # 20 lines are shown per second, the pipe holds 64 KiB
                client.schedule_many([{"endpoint": f"{url}/echo?{'x' * 2000}"} for _ in range(20)])
                last = client.schedule(endpoint=f"{url}/echo", priority="LOW")
                assert client.wait_for(last.job_id, timeout_seconds=PATIENCE_S).succeeded
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_terminal_drops_what_nobody_reads_and_closes_in_time() -> None:
    read_end, write_end = os.pipe()
    terminal = Terminal(write_end)
    for number in range(LINES_HELD + 5_000):
        terminal.write_line(f"{number:>20}")
    begun = time.monotonic()
    terminal.close()
    assert time.monotonic() - begun < PATIENCE_S, "nobody reads, and nobody will"
    assert os.read(read_end, 21) == b"                   0\n"
    os.close(read_end)


def test_terminal_shows_lines_in_order() -> None:
    read_end, write_end = os.pipe()
    terminal = Terminal(write_end)
    for text in ("one", "zwei ✓", "\ud800"):
        terminal.write_line(text)
    terminal.close()
    os.close(write_end)
    assert os.read(read_end, 100).decode() == "one\nzwei ✓\n?\n"
    os.close(read_end)


def test_damaged_database_is_one_line(tmp_path: Path) -> None:
    run_cli("migrate", "--data", "data", folder=tmp_path)
    (database,) = (path for path in (tmp_path / "data").rglob("tickwheel.db") if path.is_file())
    database.write_bytes(b"this is no database " * 500)
    done = run_cli("dev", "--data", "data", "--port", "0", folder=tmp_path)
    assert done.returncode == ExitCode.FAILED
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: sqlite:data")


def test_open_files_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    script = f'ulimit -Sn 256; exec "{TICKWHEEL[0]}" -m tickwheel dev --port 0 --store memory:'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        assert "running at" in process.stdout.readline()
        limits = Path(f"/proc/{process.pid}/limits")
        if not limits.exists():
            pytest.skip("no /proc here")
        (line,) = (line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
        soft, hard = line.split()[3:5]
        assert soft == hard
    finally:
        process.kill()
        process.communicate()


def test_ipv6_loopback_is_served_where_there_is_one(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    process = subprocess.Popen(
        [*TICKWHEEL, "serve", "--host", "::1", "--port", "0", "--store", "memory:"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://[::1]:")
        assert run_cli("jobs", "list", url=url).returncode == 0
    finally:
        process.kill()
        process.communicate()
