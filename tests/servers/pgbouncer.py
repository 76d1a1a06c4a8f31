"""PgBouncer in transaction mode in front of a test server: every transaction may get another session."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from .postgresql import PORTS, START_SECONDS, UNPRIVILEGED, PostgresServer

# One server connection for all clients, so that what one leaves behind in its session meets the others.
INI = """\
[databases]
* = host=127.0.0.1 port={server_port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
"""


class NoPgBouncer(Exception):
    """It is not installed, and we may not install it."""


class PgBouncer:
    """A pooler for all databases of a server."""

    def __init__(self, server: PostgresServer) -> None:
        found = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if found is None:
            raise NoPgBouncer("no PgBouncer on this machine")
        self._program, self._server = found, server
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        for _ in range(5):
            self.port = random.choice(PORTS)
            if self._start():
                return self
        raise RuntimeError(f"PgBouncer did not start: {self._log.read_text()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    @property
    def _log(self) -> Path:
        return self._server.folder / "pgbouncer.log"

    def _start(self) -> bool:
        ini = self._server.folder / "pgbouncer.ini"
        ini.write_text(INI.format(server_port=self._server.port, port=self.port))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, ini], stdout=log, stderr=log, cwd=self._server.folder, **UNPRIVILEGED
            )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5, prepare_threshold=None).close()
            except psycopg.Error:
                time.sleep(0.02)
            else:
                return True
        return False
