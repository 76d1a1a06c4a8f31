"""Real etcd clusters for tests and benchmarks, as children of this process.

    with EtcdCluster(3) as cluster:
        cluster.url                  # etcd://127.0.0.1:15001,127.0.0.1:15002,127.0.0.1:15003
        cluster.leader().kill()

The timing (`--heartbeat-interval 50 --election-timeout 500`) is the one that the docs advise: a new leader is
there about a second after the old one was killed.
"""

import atexit
import base64
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any, Final

from .processes import Child, Opened, found_or_installed, free_ports

PORTS: Final = range(11_000, 15_000)
"""Below the range from which the system takes client ports."""
START_SECONDS: Final = 30


class NoEtcd(Exception):
    """There is no etcd here, and we may not install one."""


def find_etcd() -> str:
    """The path of the server; root on a Debian machine without one installs the package. Raises `NoEtcd`."""
    found = found_or_installed(
        lambda: os.environ.get("ETCD_BIN") or shutil.which("etcd"), "etcd-server", "etcd-client"
    )
    if found is None:
        raise NoEtcd("no etcd here: install etcd-server, or set ETCD_BIN to the path of `etcd`")
    return found


class EtcdServer(Child):
    """One member; `start`, `kill`, `freeze` and `thaw` it as you like."""

    def __init__(
        self, program: str, name: str, folder: Path, arguments: list[str], port: int, tls: ssl.SSLContext | None
    ) -> None:
        self._command = [program, "--name", name, "--data-dir", str(folder / name), *arguments]
        self.name, self.port, self._tls = name, port, tls
        self._log = folder / f"{name}.log"

    def start(self) -> None:
        """Begin, or go on with the data of before; doesn't wait."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def ask(self, path: str, message: object, timeout: float = 2) -> Any:
        """A call to this member's JSON gateway. Raises OSError."""
        url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{path}"
        body = json.dumps(message).encode()
        with urllib.request.urlopen(url, body, timeout=timeout, context=self._tls) as answer:
            return json.load(answer)

    def is_serving(self) -> bool:
        """Whether it can read with a quorum."""
        try:
            self.ask("/v3/kv/range", {"key": base64.b64encode(b"x").decode()})
        except OSError:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"etcd ended:\n{self._log.read_text()[-3000:]}") from None
            return False
        return True


class EtcdCluster(Opened):
    """`count` members on loopback, with data folders of their own that `close` removes.

    With `certificate` and `key` they speak TLS to clients, and ask for a certificate that this one signed.
    """

    def __init__(
        self, count: int = 1, *, election_ms: int = 500, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        program = find_etcd()
        self.folder = Path(tempfile.mkdtemp(prefix="tw-etcd-"))
        ports = free_ports(PORTS, 2 * count)
        names = [f"n{number}" for number in range(count)]
        peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        self.servers = []
        scheme, tls = "http", None
        secure: list[str] = []
        if certificate is not None and key is not None:
            scheme, tls = "https", ssl.create_default_context(cafile=str(certificate))
            tls.load_cert_chain(certificate, key)
            secure = ["--cert-file", str(certificate), "--key-file", str(key)]
            secure += ["--client-cert-auth", "--trusted-ca-file", str(certificate)]
        for name, port, peer in zip(names, ports, peers, strict=False):
            client = f"{scheme}://127.0.0.1:{port}"
            arguments = [*secure, "--listen-client-urls", client, "--advertise-client-urls", client]
            arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            arguments += ["--initial-cluster", ",".join(f"{n}={p}" for n, p in zip(names, peers, strict=True))]
            arguments += ["--initial-cluster-token", "test", "--initial-cluster-state", "new"]
            arguments += ["--heartbeat-interval", str(election_ms // 10), "--election-timeout", str(election_ms)]
            arguments += ["--logger", "zap", "--log-outputs", "stderr", "--unsafe-no-fsync"]
            self.servers.append(EtcdServer(program, name, self.folder, arguments, port, tls))

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def open(self) -> None:
        for server in self.servers:
            server.start()
        self.wait()

    def wait(self) -> None:
        """Until every running member serves."""
        deadline = time.monotonic() + START_SECONDS
        for server in self.servers:
            while server.process is not None and not server.is_serving():
                if time.monotonic() > deadline:
                    raise RuntimeError(f"etcd member {server.name} did not serve within {START_SECONDS} s")
                time.sleep(0.02)

    def leader(self) -> EtcdServer:
        """The member that leads now."""
        for server in self.servers:
            if server.process is not None:
                status = server.ask("/v3/maintenance/status", {})
                if status.get("leader") == status["header"]["member_id"]:
                    return server
        raise RuntimeError("no member leads")

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def shared_etcd() -> EtcdCluster:
    """A single member that the tests of this process share; each takes a prefix of its own. Raises `NoEtcd`."""
    cluster = EtcdCluster().__enter__()
    atexit.register(cluster.close)
    return cluster


def stop_shared_etcd() -> None:
    """End it, if it was ever started."""
    if shared_etcd.cache_info().currsize:
        shared_etcd().close()
        shared_etcd.cache_clear()
