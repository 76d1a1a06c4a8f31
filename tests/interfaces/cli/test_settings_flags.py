"""Settings from flags, environment and file; what `serve` and `dev` insist on."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli import dev as dev_module
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.main import COMMANDS
from tickwheel.interfaces.cli.process import Mode
from tickwheel.interfaces.cli.serve import banner
from tickwheel.interfaces.cli.settings_options import ALL, read_settings
from tickwheel.interfaces.cli.supervisor import run_processes

TOKEN = "a-token-of-some-length"


def read(arguments: list[str], monkeypatch: pytest.MonkeyPatch, **environment: str) -> Settings:
    for name in environment:
        monkeypatch.setenv(name, environment[name])
    command = COMMANDS["serve"]
    context = command.make_context("serve", arguments)
    return read_settings(context)


def test_every_wrong_setting_is_named_at_once(call: Callable[..., Result], tmp_path: Path) -> None:
    config = tmp_path / "tickwheel.toml"
    config.write_text('retention_days = 0\nretension_days = 3\nlog_level = "info"\n')
    result = call(
        "serve",
        "--config",
        str(config),
        "--port",
        "99999",
        TICKWHEEL_LEASE_SECONDS="soon",
        TICKWHEEL_STORE="mysql://x",
        TICKWHEEL_PROT="1",
    )
    assert result.exit_code == ExitCode.USAGE
    lines = result.stderr.splitlines()
    for name in ("retention_days", "retension_days", "--port", "TICKWHEEL_LEASE_SECONDS", "TICKWHEEL_PROT"):
        assert any(name in line for line in lines), name
    assert any("TICKWHEEL_STORE" in line for line in lines), "also what is a text of the wrong kind"
    assert "did you mean retention_days?" in result.stderr
    assert all(line.startswith("Error: ") for line in lines)
    assert "Traceback" not in result.stderr


def test_flags_win_over_environment_over_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "tickwheel.toml"
    config.write_text("port = 1\nlease_seconds = 40\ngrace_seconds = 7\n")
    settings = read(
        ["--config", str(config), "--port", "3"], monkeypatch, TICKWHEEL_PORT="2", TICKWHEEL_LEASE_SECONDS="50"
    )
    assert (settings.port, settings.lease_seconds, settings.grace_seconds) == (3, 50, 7)


def test_config_file_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "tickwheel.toml"
    config.write_text("retention_days = 30\n")
    assert read([], monkeypatch, TICKWHEEL_CONFIG=str(config)).retention_days == 30


def test_lists_and_switches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        ["--token", TOKEN, "--token", TOKEN + "2", "--allow-private", "10.0.0.0/8", "--allow-loopback"],
        monkeypatch,
    )
    assert settings.token == (TOKEN, TOKEN + "2")
    assert settings.allow_private == ("10.0.0.0/8",)
    assert settings.allow_loopback
    assert not read(["--no-allow-loopback"], monkeypatch, TICKWHEEL_ALLOW_LOOPBACK="1").allow_loopback


def test_every_setting_is_a_flag_of_serve() -> None:
    options = {option for parameter in COMMANDS["serve"].params for option in parameter.opts}
    assert {"--" + name.replace("_", "-") for name in ALL} <= options


@pytest.mark.pitfall(101)
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
def test_serve_without_a_token_refuses_to_listen_beyond_loopback(
    call: Callable[..., Result], host: str, tmp_path: Path
) -> None:
    result = call("serve", "--host", host, "--port", "0", "--data", str(tmp_path))
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("Error: host: no token is set up")
    assert host in result.stderr
    assert f"tickwheel tokens create --role admin --all-tenants --data {tmp_path}" in result.stderr
    assert "TICKWHEEL_TOKEN" in result.stderr
    assert "--host 127.0.0.1" in result.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_serve_refuses_an_api_key_as_a_token_of_its_own(call: Callable[..., Result], processes: str) -> None:
    """Whoever exported a key for the command line, and starts the server there, would give it all rights."""
    key = "tw_k3v9q2m7x4tz_" + "d8b745sx" * 4
    flags = ["--store", "postgresql://app@db/jobs", "--processes", processes]
    result = call("serve", *flags, TICKWHEEL_TOKEN=f"{TOKEN},{key}")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("Error: token: is an API key")
    assert "unset TICKWHEEL_TOKEN" in result.stderr
    assert key not in result.stderr


def test_no_auth_is_refused_beyond_loopback_even_with_a_token(call: Callable[..., Result]) -> None:
    result = call("serve", "--host", "0.0.0.0", "--token", TOKEN, "--no-auth")
    assert result.exit_code == ExitCode.USAGE
    assert "loopback only" in result.stderr


def test_several_processes_are_refused_where_the_kernel_spreads_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    settings = Settings(store="postgresql://app@db/jobs", processes=2)
    with pytest.raises(ConfigError, match="more than one needs Linux"):
        run_processes(settings, Mode(with_echo=False, with_console=False, banner=banner))


def test_open_api_is_told_at_the_start() -> None:
    assert "Nobody is asked" in banner("http://127.0.0.1:1", Settings(), is_open=True)
    assert "Nobody is asked" not in banner("http://127.0.0.1:1", Settings(), is_open=False)


def test_dev_is_open_on_loopback_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWHEEL_HOST", "0.0.0.0")
    monkeypatch.setenv("TICKWHEEL_TOKEN", "short")
    monkeypatch.setenv("TICKWHEEL_ALLOW_LOOPBACK", "no")
    monkeypatch.setenv("TICKWHEEL_PROCESSES", "4")
    context = COMMANDS["dev"].make_context("dev", [])
    settings = read_settings(context, dev_module.INSISTS)
    assert (settings.host, settings.token, settings.allow_loopback) == ("127.0.0.1", (), True)
    assert settings.processes == 1
    options = {option for parameter in COMMANDS["dev"].params for option in parameter.opts}
    assert not {"--host", "--token", "--allow-loopback"} & options
    assert isinstance(context, click.Context)


def test_dev_names_the_server_for_the_command_line_where_it_is_not_the_usual_one() -> None:
    assert "export TICKWHEEL_URL=http://127.0.0.1:9000" in dev_module.banner("http://127.0.0.1:9000", Settings())
    assert "TICKWHEEL_URL" not in dev_module.banner("http://127.0.0.1:8080", Settings())
