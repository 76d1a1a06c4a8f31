"""TLS from end to end: the server's settings, who trusts whom, and what is said when something is wrong."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tickwheel import Client
from tickwheel.config import ServerTrust
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.client.errors import ServerUnreachable
from tickwheel.interfaces.worker.worker import Worker

from ..http.certificates import Authority
from .server_process import CommandProcess, ServerProcess, json_of, run_cli, wait_until, with_handlers


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a server that asks for certificates, and of a client of it."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    cert, key, _ = authority.issue()
    ours, our_key, _ = authority.issue("client", for_client=True)
    return {
        name: str(path)
        for name, path in {
            "ca": authority.file,
            "cert": cert,
            "key": key,
            "client_cert": ours,
            "client_key": our_key,
        }.items()
    }


@pytest.fixture(scope="session")
def tls_server(tls_files: dict[str, str], handlers_folder: Path) -> Any:
    """A `tickwheel dev` over TLS that lets in only clients with a certificate."""
    with ServerProcess(
        *("--store", "memory:", "--tls-cert", tls_files["cert"], "--tls-key", tls_files["key"]),
        *("--tls-client-ca", tls_files["ca"]),
        folder=handlers_folder,
    ) as server:
        yield server


def trusting(files: dict[str, str]) -> tuple[str, ...]:
    return (
        *("--ca-file", files["ca"], "--client-cert", files["client_cert"]),
        *("--client-key", files["client_key"]),
    )


def test_the_command_line_and_the_client_speak_tls(tls_server: ServerProcess, tls_files: dict[str, str]) -> None:
    assert tls_server.url.startswith("https://127.0.0.1:")
    assert "jobs" in json_of(run_cli("jobs", "list", "--json", *trusting(tls_files), url=tls_server.url))
    with Client(
        tls_server.url,
        ca_file=tls_files["ca"],
        client_cert=tls_files["client_cert"],
        client_key=tls_files["client_key"],
    ) as client:
        assert client.health().status == "ok"


def test_who_does_not_trust_or_is_not_known_hears_the_remedy(
    tls_server: ServerProcess, tls_files: dict[str, str]
) -> None:
    with Client(tls_server.url) as client, pytest.raises(ServerUnreachable, match="--ca-file"):
        client.health()
    unknown = Client(tls_server.url, ca_file=tls_files["ca"])
    with unknown as client, pytest.raises(ServerUnreachable, match="--client-cert"):
        client.health()
    done = run_cli("jobs", "list", url=tls_server.url.replace("https", "http"))
    assert done.returncode == ExitCode.FAILED
    assert "https://" in done.stderr


@pytest.mark.slow
def test_a_worker_takes_work_over_tls(
    tls_server: ServerProcess, tls_files: dict[str, str], tmp_path: Path
) -> None:
    folder = with_handlers(tmp_path)
    with CommandProcess(
        *("worker", "--server", tls_server.url, "--app", "handlers_of_tests", *trusting(tls_files)), folder=folder
    ) as worker:
        worker.wait_for_line("takes work from https://")
        with Client(
            tls_server.url,
            ca_file=tls_files["ca"],
            client_cert=tls_files["client_cert"],
            client_key=tls_files["client_key"],
        ) as client:
            job = client.schedule(handler="work", delay_seconds=0)
            run = wait_until(lambda: client.get(job.job_id).last_run, why="the run has ended")
            wait_until(lambda: client.get_run(run.run_id).status == "SUCCEEDED", why="it has succeeded")
        worker.terminate()
        assert worker.exit_code() == 0


def serve(*arguments: str, folder: Path) -> Any:
    return run_cli(
        *("serve", "--store", "memory:", "--port", "0", "--token", "a-token-of-some-length", *arguments),
        folder=folder,
    )


def test_files_that_will_not_do_are_told_with_their_setting(tmp_path: Path, authority: Authority) -> None:
    cert, _, _ = authority.issue()
    _, key, _ = authority.issue("other")
    _, sealed, _ = authority.issue("sealed", password="secret")
    shutil.copy(tmp_path / "sealed.crt", cert)
    for arguments, told in (
        (("--tls-cert", "nix.crt", "--tls-key", "nix.key"), ("tls_cert: nix.crt", "tls_key: nix.key")),
        (("--tls-cert", str(cert), "--tls-key", str(key)), ("tls_key: ", "belong together")),
        (("--tls-cert", str(cert), "--tls-key", str(sealed)), ("tls_key_password: is missing",)),
        (("--tls-cert", str(key), "--tls-key", str(key)), ("tls_cert: ", "holds no certificate")),
        (("--tls-cert", str(cert)), ("tls_key: is missing",)),
        (("--tls-key", str(key)), ("tls_cert: is missing",)),
        (("--tls-client-ca", str(cert)), ("--tls-client-ca: means nothing",)),
    ):
        done = serve(*arguments, folder=tmp_path)
        assert done.returncode == ExitCode.USAGE, (arguments, done)
        assert all(text in done.stderr for text in told), (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_doctor_looks_at_the_certificate(
    call: Callable[..., Result], tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_at(*arguments: str) -> list[tuple[str, str]]:
        result = call("doctor", "--json", "--store", "memory:", "--port", "0", *arguments)
        return [
            (check["level"], check["text"])
            for check in json.loads(result.stdout)["checks"]
            if check["name"] == "tls"
        ]

    assert looked_at() == []
    (off,) = looked_at("--host", "0.0.0.0")
    assert off[0] == "warn"
    for days, level, words in ((30, "ok", "valid until"), (9, "warn", "8 days"), (-1, "fail", "expired")):
        cert, key, _ = authority.issue(days=days)
        (found,) = looked_at("--tls-cert", str(cert), "--tls-key", str(key))
        assert found[0] == level, found
        assert words in found[1]
    key.chmod(0o644)
    assert [level for level, _ in looked_at("--tls-cert", str(cert), "--tls-key", str(key))] == ["fail", "warn"]
    (missing, also) = looked_at("--tls-cert", "nix.crt", "--tls-key", "nix.key")
    assert missing[0] == also[0] == "fail"


def test_doctor_knows_a_server_by_its_certificate(
    call: Callable[..., Result], tls_server: ServerProcess, tls_files: dict[str, str], tmp_path: Path
) -> None:
    def port_with(cert: str, key: str) -> tuple[str, str]:
        port = tls_server.url.rpartition(":")[2]
        result = call(
            *("doctor", "--json", "--store", "memory:", "--port", port, "--tls-cert", cert, "--tls-key", key)
        )
        (found,) = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "port"]
        return found["level"], found["text"]

    assert port_with(tls_files["cert"], tls_files["key"])[0] == "ok"
    foreign, key, _ = Authority(tmp_path).issue()
    assert port_with(str(foreign), str(key))[0] == "fail"


def test_files_of_a_client_that_are_not_there_are_told(tmp_path: Path) -> None:
    done = run_cli("jobs", "list", "--ca-file", "nix.pem", "--client-key", "nix.key", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "--ca-file: there is no file nix.pem" in done.stderr
    assert "--client-key: means nothing without client_cert" in done.stderr
    with pytest.raises(ConfigError) as refused:
        Worker(server="https://127.0.0.1:1", client_cert="nix.crt")
    assert [problem.field for problem in refused.value.problems] == ["client_cert"]
    assert ServerTrust().problems() == []


@pytest.mark.slow
def test_several_processes_speak_tls_on_the_shared_port_and_alone(
    tls_files: dict[str, str], blank_postgresql: str, tmp_path: Path
) -> None:
    flags = ("--store", blank_postgresql, "--processes", "2", "--tls-cert", tls_files["cert"])
    with ServerProcess(*flags, "--tls-key", tls_files["key"], folder=tmp_path, command="serve") as server:
        own = re.findall(r"\d+", server.wait_for_line("answer alone").partition("on ports")[2])
        assert server.url.startswith("https://")
        for url in (server.url, *(f"https://127.0.0.1:{port}" for port in own)):
            with Client(url, ca_file=tls_files["ca"]) as client:
                assert client.health().status == "ok"
        server.terminate()
        assert server.exit_code() == 0


def test_several_processes_tell_once_what_is_wrong_with_the_files(
    tls_files: dict[str, str], blank_postgresql: str, tmp_path: Path
) -> None:
    flags = ("--store", blank_postgresql, "--processes", "2", "--tls-cert", tls_files["cert"])
    done = run_cli("serve", "--port", "0", *flags, "--tls-key", tls_files["client_key"], folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.count("tls_key: ") == 1
