"""A server with planted secrets in its settings, and the ways to talk to it; all that it says is noted."""

import http.client
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..interfaces.cli.server_process import PATIENCE_S, TICKWHEEL, ServerProcess, clean_environment, wait_until
from .planted import PLANTED, Told


class Installation:
    """Its folder, its settings, and what was told."""

    def __init__(self, folder: Path, store: str, log_format: str) -> None:
        self.folder, self.told, self.data = folder, Told(), folder / "data"
        self.config, self.is_clustered = folder / "tickwheel.toml", store != ""
        settings = {
            "token": [PLANTED["token"]],
            "webhook_secret": [PLANTED["webhook_secret"]],
            "jwt_secret": PLANTED["jwt_secret"],
            "jwt_audience": "tickwheel",
            "jwt_all_tenants": True,
            "secrets_key": [PLANTED["secrets_key"]],
            "egress_proxy": [f"spare=http://user:{PLANTED['the password of the proxy']}@127.0.0.1:9"],
            "allow_loopback": True,
            "log_level": "debug",
            "log_format": log_format,
            "data": str(self.data),
            "store": store,
        }
        self.config.write_text(
            "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if value != "")
        )
        self.config.chmod(0o600)
        self.server: ServerProcess | None = None

    def start(self) -> ServerProcess:
        self.server = ServerProcess("--config", str(self.config), folder=self.folder, command="serve")
        return self.server

    def stopped(self) -> None:
        """After the end of the server: what it said is noted."""
        assert self.server is not None
        self.told.note("the log", "\n".join(self.server.lines))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = PLANTED["token"],
        tells: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """One request; status, and JSON if it is that. `tells` may be in this answer, and has to be."""
        assert self.server is not None
        parts = urlsplit(self.server.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        assert response.status < 500, answer
        if tells:
            assert tells.encode() in answer
            answer = answer.replace(tells.encode(), b"")
        self.told.note(f"the answer to {method} {path.split('?')[0]}", f"{response.headers}".encode() + answer)
        is_json = "json" in (response.headers["Content-Type"] or "")
        return response.status, json.loads(answer) if is_json and answer else answer

    def make(self, endpoint: str, **fields: Any) -> str:
        """A job with two secret headers, due at once unless told otherwise."""
        target = {
            "endpoint": endpoint,
            "headers": {
                "Authorization": f"Bearer {PLANTED['a header']}",
                "X-Api-Key": PLANTED["a second header"],
            },
            "signing_secret": "billing",
        }
        body = {"schedule_type": "INSTANT", "target": target, "retry_policy": {"max_retries": 0}, **fields}
        status, answer = self.ask("POST", "/v1/jobs", body)
        assert status == 201, answer
        job_id: str = answer["job_id"]
        return job_id

    def ended_run(self, job_id: str) -> dict[str, Any]:
        """The job's run, once it is over."""

        def over() -> Any:
            _, answer = self.ask("GET", f"/v1/jobs/{job_id}/runs")
            runs = [run for run in answer["runs"] if run["status"] in ("SUCCEEDED", "FAILED")]
            return runs and runs[0]

        run: dict[str, Any] = wait_until(over, why=f"the end of {job_id}")
        return self.ask("GET", f"/v1/runs/{run['run_id']}")[1]  # type: ignore[no-any-return]  # JSON

    def type(
        self,
        *arguments: str,
        fails: bool | None = False,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """A command, with the server and its token in the environment; what it printed."""
        given = {} if self.server is None else {"TICKWHEEL_URL": self.server.url}
        finished = subprocess.run(
            [*TICKWHEEL, *arguments],
            capture_output=True,
            text=True,
            input=stdin,
            env=clean_environment() | given | dict(environment or {"TICKWHEEL_TOKEN": PLANTED["token"]}),
            cwd=self.folder,
            timeout=PATIENCE_S,
            check=False,
        )
        shown = " ".join(arguments[:2]) + (f" {sorted(environment)}" if environment else "")
        assert fails is None or (finished.returncode != 0) is fails, f"{shown}: {finished.stdout}{finished.stderr}"
        assert "Traceback" not in finished.stderr, finished.stderr
        self.told.note(f"tickwheel {shown}", finished.stdout + finished.stderr)
        return finished.stdout
