"""Real PostgreSQL servers for tests, benchmarks and trials, as children of this process.

    with PostgresServer() as server:
        server.create_database("trial")
        server.url("trial")          # postgresql://postgres@127.0.0.1:23456/trial
        server.kill(); server.start()

Being the parent matters: the end of a killed server is seen at once, so that a restart after `kill` takes about
0.1 s. Everything listens on loopback, on a port below the range from which the system takes client ports.

`python -m tests.servers.postgresql` starts one to play with and prints its address.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from .postgresql_binaries import find_binaries
from .processes import Opened

PORTS: Final = range(15_000, 32_000)
START_SECONDS: Final = 30
SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_locks_per_transaction": "512",  # partitions of several tables created in one transaction
    "autovacuum_naptime": "5s",
    "wal_level": "replica",
    "hot_standby": "on",
}
"""What every server here is started with; `settings` of the constructor go on top."""
_AS_ROOT: Final = os.geteuid() == 0
UNPRIVILEGED: Final[dict[str, Any]] = (
    {"user": "postgres", "group": "postgres", "extra_groups": []} if _AS_ROOT else {}
)
"""How a program is started that refuses to run as root."""


class PostgresServer(Opened):
    """One server with a data folder of its own, which `close` removes.

    `durable` switches fsync on (off: the operating system keeps what a *killed* server wrote, all the same).
    `parent` is where the data folder is made, the folder for temporary files unless told otherwise.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        parent: Path | None = None,
    ) -> None:
        self.bin = find_binaries()
        self.durable = durable
        self.settings = dict(settings or {})
        self.folder = Path(tempfile.mkdtemp(prefix="tw-pg-", dir=parent))
        self.folder.chmod(0o755)
        if _AS_ROOT:
            shutil.chown(self.folder, "postgres", "postgres")
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """How to connect; no password is asked for."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def open(self) -> None:
        self.init()
        self.start()

    def init(self) -> None:
        """Make an empty data folder."""
        self._run(
            "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"
        )

    def start(self) -> None:
        """Start it on the port it had (or a free one) and wait until it answers."""
        deadline = time.monotonic() + START_SECONDS
        first = not self.port
        while True:
            if first:
                self.port = random.choice(PORTS)
            logged = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            while True:
                assert self.process is not None
                if self.process.poll() is not None:
                    told = self.log.read_bytes()[logged:].decode(errors="replace")
                    self.process = None
                    if time.monotonic() < deadline and _is_passing(told):
                        break
                    raise RuntimeError(f"PostgreSQL did not start:\n{told}")
                if self._answers():
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not answer in {START_SECONDS} s:\n{self.log.read_text()}")
                time.sleep(0.02)
            time.sleep(0.05)

    def stop(self, *, immediate: bool = False) -> None:
        """Shut down and wait: fast (clients are cut off, data is written), or without writing anything."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """kill -9 of the whole server: nothing is written any more, every client loses its connection."""
        if self.process is not None:
            children = self.children()
            self.process.kill()
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(60)
            self.process = None
            deadline = time.monotonic() + START_SECONDS
            while any(_runs(pid) for pid in children) and time.monotonic() < deadline:
                time.sleep(0.005)

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start."""
        self.stop(immediate=immediate)
        self.start()

    def freeze(self) -> None:
        """SIGSTOP to all its processes: connections stay open and nothing answers, until `thaw`."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        for pid in reversed(self._pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def children(self) -> list[int]:
        """Process ids of its backends and background processes."""
        assert self.process is not None
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def close(self) -> None:
        """End it without ceremony and remove its folder."""
        if self.process is not None:
            self.thaw()
            self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """A connection in autocommit."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=5, **options)

    def execute(self, statement: str, *values: Any, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own; gives its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, empty or as a copy of `template` (nobody may be connected to that); gives its URL."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        with self.connect() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template1")))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop it, whoever is connected."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def set(self, **settings: str) -> None:
        """ALTER SYSTEM and reload; for settings that need no restart."""
        with self.connect() as connection:
            for name, value in settings.items():
                connection.execute(
                    sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
                )
            connection.execute("SELECT pg_reload_conf()")

    def add_standby(self, name: str = "standby", *, synchronous: bool = True) -> "PostgresServer":
        """A streaming copy of this server, started; close it like any server.

        Synchronous: from now on a commit here waits until the standby has it on disk, for ever if need be.
        """
        standby = PostgresServer(durable=self.durable, settings=self.settings)
        try:
            primary = f"host=127.0.0.1 port={self.port} user=postgres application_name={name}"
            standby._run(
                "pg_basebackup", "-D", standby.data, "-d", primary, "-R", "-X", "stream", "-c", "fast", "-N"
            )
            standby.start()
        except BaseException:
            standby.close()
            raise
        if synchronous:
            self.set(synchronous_standby_names=name)
        return standby

    def promote(self) -> None:
        """Make a standby the primary; returns when it takes writes."""
        with self.connect() as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_promote(wait => true, wait_seconds => 60)")
            connection.execute("SELECT pg_reload_conf()")

    def _launch(self) -> None:
        switch = "on" if self.durable else "off"
        chosen = {**SETTINGS, "fsync": switch, "port": str(self.port), **self.settings}
        options = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, *options],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **UNPRIVILEGED,
            )

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.Error:
            return False
        return True

    def _pids(self) -> list[int]:
        return [] if self.process is None else [self.process.pid, *self.children()]

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            **UNPRIVILEGED,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "HOME": str(self.folder)}


def _is_passing(log: str) -> bool:
    """Another program has the port, or a killed predecessor is not quite gone."""
    return "Address already in use" in log or "lock file" in log or "shared memory block" in log


def _runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> None:
    """Start a server, print its address, end it with the input."""
    with PostgresServer(durable="--durable" in sys.argv) as server:
        print(server.url(server.execute("SELECT current_database()")[0][0]), flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
