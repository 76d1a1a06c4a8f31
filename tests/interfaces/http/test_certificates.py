"""Files of certificates: what is taken when they are renewed, and what is said of them."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.serving import build_server, open_certificates, tls_files
from tickwheel.interfaces.http.tls import Certificates, TlsFiles

from .certificates import Authority
from .sockets import Noting


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def opened(cert: Path, key: Path) -> Certificates:
    return Certificates(TlsFiles(str(cert), str(key)), SystemClock().now_ms)


def test_half_a_renewal_changes_nothing_until_it_is_whole(authority: Authority) -> None:
    cert, key, _ = authority.issue()
    found = opened(cert, key)
    first = found.context
    new_cert, new_key, _ = authority.issue("new")
    shutil.copy(new_cert, cert)
    with capture_logs() as logs:
        found.renew()
    assert [(entry["event"], entry["setting"]) for entry in logs] == [("tls.not_renewed", "tls_key")]
    assert found.context is first
    with capture_logs() as logs:
        found.renew()
    assert logs == [], "said once"
    shutil.copy(new_key, key)
    found.renew()
    assert found.context is not first
    second = found.context
    found.renew()
    assert found.context is second
    found.renew(changed_only=False)
    assert found.context is not second


def test_files_that_went_away_change_nothing(authority: Authority) -> None:
    cert, key, _ = authority.issue()
    found = opened(cert, key)
    first = found.context
    key.unlink()
    with capture_logs() as logs:
        found.renew()
    assert [entry["event"] for entry in logs] == ["tls.not_renewed"]
    assert found.context is first


@pytest.mark.parametrize(
    ("days", "level", "expired"), [(60, "info", False), (10, "warning", False), (-1, "warning", True)]
)
def test_the_end_of_the_certificate_is_told(authority: Authority, days: int, level: str, expired: bool) -> None:
    with capture_logs() as logs:
        opened(*authority.issue(days=days)[:2]).tell()
    (entry,) = logs
    assert (entry["event"], entry["log_level"], entry["expired"]) == ("tls.certificate", level, expired)


def test_a_key_that_everybody_can_read_is_told(authority: Authority) -> None:
    cert, key, _ = authority.issue(days=60)
    key.chmod(0o644)
    with capture_logs() as logs:
        opened(cert, key).tell()
    assert [entry["event"] for entry in logs] == ["tls.key_is_readable", "tls.certificate"]


def test_one_file_may_hold_both(authority: Authority, tmp_path: Path) -> None:
    cert, key, _ = authority.issue()
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    assert opened(both, both).context is not None


def test_an_encrypted_key_wants_its_password(authority: Authority) -> None:
    cert, key, _ = authority.issue(password="sesame")
    settings = Settings(tls_cert=str(cert), tls_key=str(key), tls_key_password="sesame")
    assert open_certificates(settings) is not None
    assert "sesame" not in repr(settings) + repr(tls_files(settings))
    for password in ("", "wrong"):
        with pytest.raises(ConfigError) as refused:
            open_certificates(Settings(tls_cert=str(cert), tls_key=str(key), tls_key_password=password))
        assert [problem.field for problem in refused.value.problems] == ["tls_key_password"]


def test_a_server_keeps_no_more_connections_than_it_may_have_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(files_count: int) -> tuple[int, int]:
        monkeypatch.setattr("resource.getrlimit", lambda _: (files_count, files_count))
        settings = Settings(connections=5_000, connections_per_address=70, webhook_slots=100)
        found = build_server(Noting(), settings, None, None).room.limits
        return found.total_count, found.address_count

    assert limits(1_000_000) == (5_000, 70)
    assert limits(-1) == (5_000, 70)
    assert limits(1_000) == (708, 70)
    assert limits(10) == (16, 70)
