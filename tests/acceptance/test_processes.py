"""`tickwheel serve --processes`: several processes behind one address, and what becomes of them."""

import os
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tickwheel import JobFields

from ..interfaces.cli.server_process import (
    ServerProcess,
    run_cli,
    wait_until,
    with_handlers,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

SHARDS = 256
MODULE = "tickwheel.interfaces.cli.child"


class Several(ServerProcess):
    """Two processes on one database."""

    def __init__(self, store: str, folder: Path, *flags: str) -> None:
        given = ("--store", store, "--processes", "2", "--app", "handlers_of_tests", *flags)
        super().__init__(*given, folder=folder, command="serve")
        line = self.wait_for_line("answer alone on ports")
        self.own_ports = [int(port) for port in re.findall(r"\d+", line.partition("on ports")[2])]

    def pids(self) -> list[int]:
        """Of the processes that the parent has now."""
        return children_of(self.process.pid)

    def pid(self, number: int) -> int:
        """Of process `number`, by the port that it alone listens on."""
        (pid,) = (pid for pid in self.pids() if listens(pid, self.own_ports[number - 1]))
        return pid

    def held(self, number: int) -> int:
        """Shards of process `number`; 0 while it doesn't answer."""
        with suppress(OSError):
            return int(metric(self.own_ports[number - 1], f'tickwheel_shards_held{{process="{number}"}}'))
        return 0

    def wait_until_settled(self) -> None:
        """All shards are shared out."""
        wait_until(
            lambda: all(held := [self.held(1), self.held(2)]) and sum(held) == SHARDS, why="both hold shards"
        )

    def count(self, text: str) -> int:
        """Lines that hold it."""
        return sum(text in line for line in list(self.lines))

    def __exit__(self, *ended: object) -> None:
        left = self.pids()
        super().__exit__(*ended)  # type: ignore[arg-type]  # handed on as they came
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def lives(pid: int) -> bool:
    """Whether it runs our program (an orphan's number may be given to somebody else)."""
    try:
        return MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def listens(pid: int, port: int) -> bool:
    sockets = {
        fields[9]
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    with suppress(OSError):
        return any(os.readlink(fd).strip("socket:[]") in sockets for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        lines: list[str] = response.read().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.fixture
def server(blank_postgresql: str, tmp_path: Path) -> Iterator[Several]:
    with Several(blank_postgresql, with_handlers(tmp_path), "--grace-seconds", "20") as running:
        yield running


def test_when_one_process_is_killed_the_other_takes_over_and_no_job_is_lost(server: Several) -> None:
    server.wait_until_settled()
    killed = server.pid(1)
    jobs: list[JobFields] = [{"handler": "work", "delay_seconds": 2 + number * 0.01} for number in range(400)]
    created = [job.job_id for part in range(4) for job in server.client.schedule_many(jobs[part::4]).created]
    os.kill(killed, signal.SIGKILL)

    def all_done() -> bool:
        page = server.client.list(limit=500)
        return sum(job.status == "SUCCEEDED" for job in page.jobs) == len(created) == 400

    wait_until(all_done, why="400 jobs have run")
    assert server.count("cause=takeover"), "the shards of the killed process were taken"
    server.wait_for_line("process.ended")
    server.wait_until_settled()
    assert server.pid(1) != killed
    server.terminate()
    assert server.exit_code() == 0


def test_both_processes_answer_at_one_address_and_each_alone_at_its_own(server: Several) -> None:
    port = int(server.url.rpartition(":")[2])
    counts = {"1": 0, "2": 0}
    for _ in range(40):
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=5) as response:
            numbers = set(re.findall(r'process="(\d+)"', response.read().decode()))
        assert len(numbers) == 1
        counts[numbers.pop()] += 1
    assert min(counts.values()) >= 4, "the kernel spreads connections"
    for number, own_port in enumerate(server.own_ports, 1):
        assert metric(own_port, f'tickwheel_shards_held{{process="{number}"}}') >= 0
        with urllib.request.urlopen(f"http://127.0.0.1:{own_port}/readyz", timeout=5) as response:
            assert response.status == 200
    nodes = {found[1] for line in server.lines if (found := re.search(r"node=(\S+)", line))}
    parent = f"{socket.gethostname()}-{server.process.pid}"
    assert nodes == {parent, f"{parent}-1", f"{parent}-2"}
    assert port not in server.own_ports


def test_a_stop_drains_all_even_when_everybody_is_signalled(server: Several) -> None:
    """As systemd does: the parent and the others get SIGTERM, and the others once more from their parent."""
    server.wait_until_settled()
    napping = [server.client.schedule(handler="nap", payload=2).job_id for _ in range(8)]
    wait_until(
        lambda: all(server.client.get(job_id).status in ("DISPATCHED", "RUNNING") for job_id in napping),
        why="the handlers have begun",
    )
    pids = server.pids()
    for pid in (*pids, server.process.pid):
        os.kill(pid, signal.SIGTERM)
    assert server.exit_code() == 0
    assert not any(map(lives, pids))
    assert server.count("Stopping: "), "runs were waited for"
    assert not server.count("Ended hard")


def test_a_second_signal_ends_all_at_once(server: Several) -> None:
    job_id = server.client.schedule(handler="nap", payload=120).job_id
    wait_until(lambda: server.client.get(job_id).status in ("DISPATCHED", "RUNNING"), why="the handler has begun")
    pids = server.pids()
    server.terminate()
    server.wait_for_line("Stopping: 1 run")
    server.process.send_signal(signal.SIGINT)
    assert server.exit_code(within_s=10) == 128 + signal.SIGINT
    wait_until(lambda: not any(map(lives, pids)), why="no process is left", within_s=10)


def test_when_the_parent_is_killed_nobody_is_left_and_the_port_is_free(
    blank_postgresql: str, tmp_path: Path
) -> None:
    folder = with_handlers(tmp_path)
    with Several(blank_postgresql, folder, "--grace-seconds", "20") as server:
        job_id = server.client.schedule(handler="nap", payload=3).job_id
        wait_until(
            lambda: server.client.get(job_id).status in ("DISPATCHED", "RUNNING"), why="the handler has begun"
        )
        pids, port = server.pids(), int(server.url.rpartition(":")[2])
        assert len(pids) == 2
        server.process.kill()
        wait_until(lambda: not any(map(lives, pids)), why="no process is left", within_s=25)
        wait_until(lambda: is_free(port), why="the port is free", within_s=5)
    with Several(blank_postgresql, folder) as again:
        assert again.client.get(job_id).status == "SUCCEEDED", "it had its grace time"
        again.terminate()
        assert again.exit_code() == 0


def is_free(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return False
    return True


def test_a_process_that_crashes_again_and_again_ends_the_server(server: Several, tmp_path: Path) -> None:
    pids = server.pids()
    # The folder in which it was started comes first where modules are looked for.
    (tmp_path / "msgspec.py").write_text("import os\nos._exit(3)\n")
    os.kill(pids[0], signal.SIGKILL)
    assert server.exit_code() == 1
    line = server.wait_for_line("Error: ")
    assert "ended 5 times in a row" in line
    assert "exit code 3" in line
    assert not any(map(lives, pids))


def test_a_process_that_is_frozen_does_not_hold_the_stop_up(blank_postgresql: str, tmp_path: Path) -> None:
    with Several(blank_postgresql, with_handlers(tmp_path), "--grace-seconds", "0") as server:
        pids = server.pids()
        os.kill(pids[1], signal.SIGSTOP)
        server.terminate()
        assert server.exit_code(within_s=20) == 1
        assert not any(map(lives, pids))


def test_a_process_that_is_told_to_drain_is_renewed_at_once(server: Several) -> None:
    server.wait_until_settled()
    before = server.pid(2)
    os.kill(before, signal.SIGTERM)
    wait_until(lambda: not lives(before), why="it has drained")
    server.wait_until_settled()
    assert "restart_in_ms=0" in server.wait_for_line("process.ended")
    server.terminate()
    assert server.exit_code() == 0


def refusal(*arguments: str) -> str:
    """The one line that `serve` says instead of starting."""
    done = run_cli("serve", *arguments)
    assert done.returncode in (1, 2), done
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("Error"))
    assert "running at" not in done.stdout
    return str(line)


def test_what_keeps_all_from_starting_is_said_once() -> None:
    line = refusal("--port", "0", "--processes", "3", "--store", "postgresql://app@127.0.0.1:1/jobs")
    assert "nothing listens there" in line


def test_a_port_that_is_taken_is_named(blank_postgresql: str) -> None:
    flags = ("--processes", "2", "--store", blank_postgresql)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"127.0.0.1:{port} is taken" in refusal("--port", f"{port}", *flags)
        assert f"127.0.0.1:{port} is taken" in refusal("--port", f"{port - 2}", *flags), (
            "it is the second one's own"
        )


def test_sqlite_has_one_process(tmp_path: Path) -> None:
    line = refusal("--processes", "2", "--data", str(tmp_path))
    assert line.startswith("Error: --processes: an embedded store belongs to one process, not to 2")
    assert "--store postgresql://" in line
