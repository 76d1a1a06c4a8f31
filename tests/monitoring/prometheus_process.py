"""A real Prometheus that scrapes one server each second, with the rules that are shipped."""

import json
import random
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import yaml  # type: ignore[import-untyped]

from ..interfaces.cli.server_process import PATIENCE_S, wait_until
from .tools import DEPLOY, binary


class PrometheusProcess:
    """Started by the constructor; use as a context manager."""

    def __init__(self, folder: Path, server_url: str) -> None:
        self._port = _free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DEPLOY / "prometheus" / name) for name in ("recording.yml", "alerts.yml")],
            "scrape_configs": [
                {"job_name": "tickwheel", "static_configs": [{"targets": [urlsplit(server_url).netloc]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._log = (folder / "prometheus.log").open("w")
        self._process = subprocess.Popen(
            [
                binary("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'series'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        wait_until(self._answers, why="Prometheus answers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        self._log.close()

    def _answers(self) -> bool:
        try:
            return bool(self.query("1"))
        except OSError:
            assert self._process.poll() is None
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """What its API answers; an error of a query is an `HTTPError`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}?{urlencode(parameters)}") as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each sample that there is now."""
        data = self.get("/api/v1/query", query=expression)
        found = [data["result"]] if data["resultType"] == "scalar" else [one["value"] for one in data["result"]]
        labels = [{}] if data["resultType"] == "scalar" else [one["metric"] for one in data["result"]]
        return [(metric, float(value[1])) for metric, value in zip(labels, found, strict=True)]


def _free_port() -> int:
    """Below the range that the system gives to outgoing connections."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
