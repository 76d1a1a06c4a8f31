"""Secrets are planted wherever one may be given. Then much is done and goes wrong: nothing tells or keeps one.

Looked through are each answer, each line of the log, what commands print, the audit log, the metrics, the store's
files or rows as they are. A secret that is made is told once, in the answer that makes it.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest

from ..interfaces.cli.server_process import wait_until
from ..servers.postgresql import PostgresServer
from .installation import Installation
from .planted import PLANTED, Told
from .receiver import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_all_marks_are_found() -> None:
    told = Told()
    for name, text in PLANTED.items():
        told.note(name, f"it is {text}!")
    assert {one.split(", in ")[0] for one in told.found()} == PLANTED.keys()
    encoded = Told()
    encoded.note("base64", jwt.utils.base64url_encode(f"user:{PLANTED['a header']}!".encode()))
    assert encoded.found() == ["a header, in base64"]


def test_nothing_is_told_or_kept_on_sqlite(tmp_path: Path, receiver: Receiver) -> None:
    installation = Installation(tmp_path, "", "text")

    def look() -> None:
        installation.told.note_files(installation.data)

    refuse_to_start(installation)
    play(installation, receiver, look)
    assert len(installation.told.about(f"{installation.data}/tickwheel.db-wal")) > 100_000


def test_nothing_is_told_or_kept_on_postgresql(
    tmp_path: Path, receiver: Receiver, postgresql: PostgresServer, blank_postgresql: str
) -> None:
    url = blank_postgresql.replace("postgres@", f"postgres:{PLANTED['the password of the store']}@")
    installation = Installation(tmp_path, url, "json")

    def look() -> None:
        with psycopg.connect(blank_postgresql, autocommit=True) as connection:
            tables = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'tickwheel'::regnamespace AND relkind = 'r'"
            ).fetchall()
            for (table,) in tables:
                rows = connection.execute(f'SELECT t::text FROM tickwheel."{table}" AS t').fetchall()
                installation.told.note(f"table {table}", "\n".join(row[0] for row in rows))
            connection.execute("CHECKPOINT")
        installation.told.note_files(postgresql.data / "pg_wal")
        installation.told.note("PostgreSQL's log", postgresql.log.read_bytes())

    play(installation, receiver, look)


def play(installation: Installation, receiver: Receiver, look: Callable[[], None]) -> None:
    """The whole story: work, failures, a look at the store, a death, a second life."""
    told = installation.told
    with installation.start() as server:
        do_much(installation, receiver)
        if installation.is_clustered:  # once is enough: commands don't know what the server's store is
            talk_on_the_command_line(installation, receiver)
        look()
        server.process.send_signal(signal.SIGKILL)
        server.exit_code()
    installation.stopped()
    assert b"running at" in told.about("the log")
    assert len(told) > 80
    look()
    with installation.start() as server:
        installation.ask("GET", "/v1/jobs")
        server.terminate()
        assert server.exit_code() == 0
    installation.stopped()
    look()
    assert told.found() == []


def refuse_to_start(installation: Installation) -> None:
    """Settings that are wrong, each with a secret in it."""
    short = PLANTED["a setting that was refused"]
    password = PLANTED["a password in an address"]
    wrong = {
        "JWT_SECRET": short,
        "WEBHOOK_SECRET": f"{short}!",
        "TOKEN": f"{short} with spaces",
        "SECRETS_KEY": f"k:{short}",
        "SECRETS_KEY_COMMAND": f"sh -c 'echo {short}; exit 1'",
        "STORE": f"postgresql://app:{password}@127.0.0.1:1/jobs",
        "QUEUE": f"redis://user:{password}@127.0.0.1:1/0",
        "EGRESS_PROXY": f"ftp://user:{password}@example.com",
        "COORDINATOR": f"etcd://user:{password}@127.0.0.1:1,nonsense/",
    }
    for name, value in wrong.items():
        installation.type(
            "serve", "--port", "0", "--data", "refused", fails=True, environment={f"TICKWHEEL_{name}": value}
        )
    odd = {"TICKWHEEL_STORE": f"postgresql://app:{password}/?@127.0.0.1:1/jobs"}
    for command in ("doctor", "audit", "migrate"):
        installation.type(command, fails=True, environment=odd)


def do_much(installation: Installation, receiver: Receiver) -> None:
    ask, make = installation.ask, installation.make
    one, two = PLANTED["a signing secret"], PLANTED["a signing secret that replaced it"]
    assert ask("POST", "/v1/secrets", {"name": "billing", "value": one}, tells=one)[0] == 201
    assert ask("POST", "/v1/secrets", {"name": "billing", "value": one})[0] == 409
    assert ask("POST", "/v1/secrets", {"name": "x", "value": PLANTED["a signing secret that is none"]})[0] == 422
    assert ask("POST", "/v1/secrets/billing/rotate", {"value": two}, tells=two)[0] == 200
    ask("GET", "/v1/secrets")

    sent = receiver.wait_for(make(receiver.url("/status/200")))
    assert sent.headers["authorization"] == f"Bearer {PLANTED['a header']}"
    failed = installation.ended_run(make(receiver.url("/echo/500")))
    assert "***" in failed["attempts"][0]["excerpt"]
    for endpoint in (receiver.url("/echo/400"), "http://127.0.0.1:1/refused", "http://nowhere.invalid/"):
        assert installation.ended_run(make(endpoint))["status"] == "FAILED"
    later = make(receiver.url("/status/200"), schedule_type="DELAYED", delay_seconds=3600, idempotency_key="key")
    change(installation, receiver, later)
    refused_jobs(installation)
    _, dead = ask("GET", "/v1/dlq")
    assert len(dead["dead_letters"]) >= 4
    ask("POST", "/v1/dlq/redrive", {"run_ids": [dead["dead_letters"][0]["run_id"]]})
    poll_for_work(installation, receiver)
    sign_in(installation)
    for path in ("/metrics", "/healthz", "/readyz", "/", "/docs", "/openapi.json", "/v1/audit-log?limit=500"):
        assert ask("GET", path)[0] == 200, path
    assert b"job.create" in installation.told.about("the answer to GET /v1/audit-log")


def change(installation: Installation, receiver: Receiver, job_id: str) -> None:
    """A job and a named one: edited, put, triggered, listed, cancelled, deleted."""
    ask, path = installation.ask, f"/v1/jobs/{job_id}"
    before = {"headers": {"Authorization": PLANTED["the first value of an edited header"]}}
    assert ask("PATCH", path, {"target": before})[0] == 200
    assert ask("PATCH", path, {"target": {"headers": {"Authorization": PLANTED["a header"]}}})[0] == 200
    assert ask("PATCH", path, {"target": {"endpoint": "https://evil.example/"}})[0] == 403
    assert ask("PATCH", path, {"priority": "LOW"}, headers={"If-Match": '"1"'})[0] == 412
    named = {
        "schedule_type": "CRON",
        "cron_expression": "0 0 1 1 *",
        "target": {"endpoint": receiver.url("/status/200")},
    }
    for value in (PLANTED["the first value of an edited header"], PLANTED["a header"]):
        named["target"] |= {"headers": {"X-Key": value}}  # type: ignore[operator]  # a dict
        assert ask("PUT", "/v1/jobs/by-name/named", named)[0] in (200, 201)
    for query in ("", f"/{job_id}", "?status=SCHEDULED"):
        assert ask("GET", f"/v1/jobs{query}")[0] == 200
    assert ask("POST", f"{path}/trigger")[0] == 201
    for verb in ("pause", "resume", "cancel"):
        assert ask("POST", f"{path}/{verb}")[0] == 200
    assert ask("DELETE", path)[0] == 204


def refused_jobs(installation: Installation) -> None:
    """Requests that are wrong, with a secret in them."""
    secret, ask = PLANTED["a header that was refused"], installation.ask
    endpoint = "https://example.com/"
    password = PLANTED["a password in an address"]
    wrong_targets = [
        {"endpoint": endpoint, "headers": {"X": f"{secret}\n"}},
        {"endpoint": endpoint, "headers": {"X": [secret]}},
        {"endpoint": endpoint, "headers": [["X", secret]]},
        {"endpoint": endpoint, "headers": f"X: {secret}"},
        {"endpoint": endpoint, "headers": {"X": secret * 1_000}},
        {"endpoint": endpoint, "headers": {"X": f"tw-sealed:k1:{secret}"}},
        {"endpoint": endpoint, "header": {"X": secret}, "headers": {"X": secret}},
        {"endpoint": f"https://user:{password}@example.com/", "headers": {"X": secret}},
        {"endpoint": "http://169.254.169.254/", "headers": {"X": secret}},
        {"endpoint": endpoint, "headers": {"X": secret}, "signing_secret": "none"},
    ]
    bodies = [{"schedule_type": "INSTANT", "target": target} for target in wrong_targets]
    for body in bodies:
        status, answer = ask("POST", "/v1/jobs", body)
        assert status in (403, 422), answer
        assert ask("PUT", "/v1/jobs/by-name/wrong", body)[0] in (403, 422)
    assert ask("POST", "/v1/jobs/batch", bodies)[0] == 207
    whole = json.dumps({"schedule_type": "INSTANT", "target": {"endpoint": endpoint, "headers": {"X": secret}}})
    for raw in (whole[:-4], whole.replace("{", "[", 1), f'"{secret}"', f"{secret}", whole + whole):
        assert ask("POST", "/v1/jobs", raw.encode())[0] in (400, 422), raw
    taken = {"schedule_type": "INSTANT", "idempotency_key": "taken", "target": {"endpoint": endpoint}}
    for value, status in (("one-value", 201), (secret, 422)):
        taken["target"] = {"endpoint": endpoint, "headers": {"X": value}}
        assert ask("POST", "/v1/jobs", taken)[0] == status


def poll_for_work(installation: Installation, receiver: Receiver) -> None:
    """A worker over HTTP is given secrets, and complains of wrong things."""
    body = {"worker": {"name": PLANTED["a wrong token"]}, "slots": "x"}
    assert installation.ask("POST", "/v1/workers/poll", body)[0] == 422


def sign_in(installation: Installation) -> None:
    """Tokens of all kinds, right and wrong ones."""
    ask, told = installation.ask, installation.told
    wrong = PLANTED["a wrong token"]
    claims: dict[str, Any] = {"sub": "ann", "aud": "tickwheel", "tenant_id": "*", "role": "reader"}
    claims["exp"] = int(time.time()) + 3_600
    genuine = jwt.encode(claims, PLANTED["jwt_secret"], algorithm="HS256")
    forged = jwt.encode(claims, PLANTED["jwt_secret"][::-1], algorithm="HS256")
    for number, token in enumerate((genuine, forged)):
        told.plant(f"JSON Web Token {number}", token)
    assert ask("GET", "/v1/jobs", token=genuine)[0] == 200
    for token in (forged, wrong, f"tw_abc_{wrong}", f"{genuine}x"):
        assert ask("GET", "/v1/jobs", token=token)[0] == 401
    assert ask("GET", "/v1/jobs", headers={"Authorization": f"Basic {wrong}"})[0] == 401
    assert ask("GET", f"/v1/jobs?access_token={wrong}")[0] == 422
    assert ask("POST", "/v1/tokens", {"role": "reader", "label": "one"}, tells="tw_")[0] == 201


def talk_on_the_command_line(installation: Installation, receiver: Receiver) -> None:
    type_ = installation.type
    secret, bare = PLANTED["a header"], PLANTED["a header that was refused"]
    job = ("jobs", "create", "--in", "1h", "--endpoint", receiver.url("/status/200"))
    made = json.loads(type_(*job, "--header", f"X-Key: {secret}", "--json"))
    type_(*job, "--header", bare, fails=True)
    type_(*job, "--header", f"X-Key: {bare}\n{bare}", fails=True)
    for arguments in (("list",), ("get", made["job_id"]), ("trigger", made["job_id"]), ("list", "--json")):
        type_("jobs", *arguments)
    key = type_("tokens", "create", "--role", "admin", "--all-tenants").splitlines()[0]
    other = type_("secrets", "create", "other").splitlines()[0]
    installation.told.plant("an API key", key)
    installation.told.plant("a secret that was made", other)
    _forget(installation, "tickwheel tokens create", "tickwheel secrets create")
    type_("jobs", "list", environment={"TICKWHEEL_TOKEN": key})
    type_("jobs", "list", environment={"TICKWHEEL_TOKEN": key + "x"}, fails=True)
    type_("tokens", "revoke", key + "x")  # its id is in it
    assert installation.ask("DELETE", f"/v1/tokens/{key}")[0] == 404
    for arguments in (("tokens", "list"), ("secrets", "list"), ("audit-log",), ("audit-log", "--json")):
        type_(*arguments)
    for arguments in (("dlq", "list"), ("workers",)):
        type_(*arguments)
    config = ("--config", str(installation.config))
    type_("doctor", *config, "--json", fails=None, environment={"A": "b"})  # by what else uses the port
    type_("audit", *config, environment={"A": "b"})
    type_("serve", *config, "--port", "0", "--token", f"{bare} x", fails=True, environment={"A": "b"})
    wait_until(lambda: "other" in type_("secrets", "list"), why="the secret is listed")


def _forget(installation: Installation, *places: str) -> None:
    """These told a secret, as they should: once."""
    installation.told.drop(*places)
