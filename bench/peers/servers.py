"""The peers' PostgreSQL and Redis: durable, on loopback, children of this process, empty for each step."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from bench.peers.catalogue import Server
from tests.servers.postgresql import PORTS, PostgresServer

POSTGRESQL_SETTINGS: Final = {
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "1min",
}
REDIS_SETTINGS: Final = {"appendonly": "yes", "save": "", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}
_FSYNC: Final = {Server.REDIS_EVERYSEC: "everysec", Server.REDIS_ALWAYS: "always"}
START_S: Final = 20


@dataclass(frozen=True, slots=True)
class Store:
    """Where a step keeps its jobs: the address, and the process whose CPU time counts."""

    url: str
    pid: int

    def settle(self) -> None:
        """Leave nothing over from loading that the server would else do while it is being measured."""
        if self.url.startswith("postgresql:"):
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE)")
                connection.execute("CHECKPOINT")


class Servers:
    """A context manager. PostgreSQL runs throughout, with a database per step; Redis is a new one for each."""

    def __init__(self) -> None:
        self._postgresql = PostgresServer(durable=True, settings=POSTGRESQL_SETTINGS)

    def __enter__(self) -> "Servers":
        self._postgresql.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._postgresql.close()

    @contextmanager
    def store(self, server: Server) -> Iterator[Store]:
        """An empty one."""
        if server is not Server.POSTGRESQL:
            with _redis(_FSYNC[server]) as store:
                yield store
            return
        url = self._postgresql.create_database("bench")
        try:
            self._postgresql.execute("CHECKPOINT")
            assert self._postgresql.process is not None
            yield Store(url, self._postgresql.process.pid)
        finally:
            self._postgresql.drop_database("bench")

    def version(self) -> str:
        """Of PostgreSQL, as it says."""
        return str(self._postgresql.execute("SHOW server_version")[0][0]).split()[0]


def redis_version() -> str:
    """As it says; empty where there is none."""
    try:
        said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    except OSError:
        return ""
    return said.partition("v=")[2].split()[0]


@contextmanager
def _redis(fsync: str) -> Iterator[Store]:
    folder, port = Path(tempfile.mkdtemp(prefix="tw-redis-")), _free_port()
    settings = {**REDIS_SETTINGS, "appendfsync": fsync, "dir": str(folder), "port": str(port)}
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        _wait_for_redis(process, port)
        yield Store(f"redis://127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_redis(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("Redis did not start")


def _free_port() -> int:
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")
