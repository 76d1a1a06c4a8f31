"""Real Redis servers for tests and benchmarks, as children of this process.

    with RedisServer() as server:
        server.url                   # redis://127.0.0.1:9001
        server.kill(); server.start()
    with RedisCluster() as cluster:  # three masters, each with a replica
        cluster.url                  # redis+cluster://127.0.0.1:9001,127.0.0.1:9002,...
        cluster.master_of("key").kill()

Nothing is written to disk, so a server that was killed comes back empty.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import redis

from .processes import Child, Opened, found_or_installed, free_ports

PORTS: Final = range(5_000, 10_900)
"""Below the range from which the system takes client ports."""
START_SECONDS: Final = 30
BUS_OFFSET: Final = 1
NODE_TIMEOUT_MS: Final = 500


class NoRedis(Exception):
    """There is no Redis here, and we may not install one."""


def find_redis() -> str:
    """The path of the server; root on a Debian machine without one installs the package. Raises `NoRedis`."""
    found = found_or_installed(lambda: os.environ.get("REDIS_BIN") or shutil.which("redis-server"), "redis-server")
    if found is None:
        raise NoRedis("no Redis here: install redis-server, or set REDIS_BIN to the path of `redis-server`")
    return found


class RedisServer(Opened, Child):
    """One server; `start`, `kill`, `freeze` and `thaw` it as you like.

    `options` are words of its command line, `client` what this class itself connects with.
    """

    def __init__(
        self, *options: str, port: int = 0, tls: bool = False, client: dict[str, Any] | None = None
    ) -> None:
        self._program, self._options, self._tls = find_redis(), options, tls
        self._client = client or {}
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="tw-redis-"))

    @property
    def url(self) -> str:
        return f"{'rediss' if self._tls else 'redis'}://127.0.0.1:{self.port}"

    def open(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, empty, on the port it had (or a free one) and wait until it answers."""
        deadline = time.monotonic() + START_SECONDS
        self.port = self.port or free_ports(PORTS, 1)[0]
        self.launch()
        while not self.answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Redis did not start:\n{(self.folder / 'log').read_text()[-3_000:]}")
            time.sleep(0.01)

    def launch(self) -> None:
        """Begin; doesn't wait."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self._program, "--bind", "127.0.0.1", "--dir", str(self.folder)),
                    *("--tls-port" if self._tls else "--port", str(self.port)),
                    *("--save", "", "--appendonly", "no", "--daemonize", "no"),
                    *self._options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False

    def ask(self, *words: str | int | bytes) -> Any:
        """What it answers to a command. Raises `redis.RedisError`."""
        with redis.Redis(
            port=self.port, socket_timeout=5, ssl=self._tls, ssl_cert_reqs="none", protocol=2, **self._client
        ) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisCluster(Opened):
    """Three masters with a replica each; a master that dies is replaced within about two seconds."""

    def __init__(self, masters: int = 3, replicas: int = 1) -> None:
        self._replicas = replicas
        count = masters * (1 + replicas)
        self.servers = [self._server(port) for port in free_ports(PORTS, count, beside=[BUS_OFFSET])]

    @staticmethod
    def _server(port: int) -> RedisServer:
        return RedisServer(
            *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"),
            *("--cluster-port", str(port + BUS_OFFSET), "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            port=port,
        )

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def open(self) -> None:
        for server in self.servers:
            server.start()
        self._join()

    def _join(self) -> None:
        first = self.servers[0]
        cli = Path(first._program).with_name("redis-cli")
        places = [f"127.0.0.1:{server.port}" for server in self.servers]
        command = [
            str(cli),
            "--cluster",
            "create",
            *places,
            "--cluster-replicas",
            str(self._replicas),
            "--cluster-yes",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"no cluster was made:\n{done.stdout}\n{done.stderr}")
        self.wait()

    def wait(self) -> None:
        """Until every running server finds the cluster whole, and every replica has its data."""
        deadline = time.monotonic() + START_SECONDS
        for server in self.servers:
            while server.process is not None and not _is_whole(server):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the cluster was not whole within {START_SECONDS} s")
                time.sleep(0.02)

    def master_of(self, key: str | bytes) -> RedisServer:
        """The server that has that key now, as any running one says."""
        for asked in self.servers:
            if asked.process is None:
                continue
            slot = asked.ask("CLUSTER", "KEYSLOT", key)
            for first, last, (_, port, *_), *_ in asked.ask("CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    return next(server for server in self.servers if server.port == port)
        raise RuntimeError("no server has that key")

    def masters(self) -> Sequence[RedisServer]:
        """All that are masters now."""
        return [s for s in self.servers if s.process is not None and s.ask("ROLE")[0] == b"master"]

    def close(self) -> None:
        for server in self.servers:
            server.close()


def _is_whole(server: RedisServer) -> bool:
    try:
        info = server.ask("CLUSTER", "INFO")
        return b"cluster_state:ok" in info and server.ask("ROLE")[0:4:3] in ([b"master"], [b"slave", b"connected"])
    except redis.RedisError:
        return False


@cache
def shared_redis() -> RedisServer:
    """A server that the tests of this process share; each takes a cluster name of its own. Raises `NoRedis`."""
    server = RedisServer().__enter__()
    atexit.register(server.close)
    return server


@cache
def shared_redis_cluster() -> RedisCluster:
    """The same for a cluster of one master per third of the slots, without replicas."""
    cluster = RedisCluster(replicas=0).__enter__()
    atexit.register(cluster.close)
    return cluster


def stop_shared_redis() -> None:
    """End both, if they were ever started."""
    for shared in (shared_redis, shared_redis_cluster):
        if shared.cache_info().currsize:
            shared().close()
            shared.cache_clear()
