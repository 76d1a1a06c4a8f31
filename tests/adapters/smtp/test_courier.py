"""Mail is handed in as it should be read, encrypted, and never to a server that isn't who it says."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tickwheel.adapters.smtp.courier import SmtpCourier, compose_mail
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.mail_server import MailServer, read_mail_server
from tickwheel.domain.notifications.messages import Message

from .sink import SmtpSink

TLS = Path(__file__).parent.parent / "webhook" / "tls"
CERTIFICATE = TLS / "loopback.cert.pem"
SENDER = "jobs@example.com"
MESSAGE = Message(
    id="ntf_1",
    tenant_id="default",
    title="Run out of attempts: größte Übersicht",
    text="Run out of attempts: größte Übersicht.\n\n.\n.. dots\nhttps://jobs.example/#/runs/run_1\n",
    body=b"{}",
)


def context() -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(CERTIFICATE, TLS / "loopback.key.pem")
    return found


async def hand_in(
    sink: SmtpSink, *addresses: str, host: str = "127.0.0.1", ca_file: str | None = str(CERTIFICATE), **server: Any
) -> str | None:
    given = MailServer(host, sink.port, server.pop("tls_at_once", False), **server)
    courier = SmtpCourier(given, SENDER, SystemClock(), ca_file)
    try:
        return await courier.bring(addresses or ("ops@example.com",), MESSAGE)
    finally:
        await courier.aclose()


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_mail_arrives_as_it_was_written() -> None:
    async def scenario() -> None:
        async with SmtpSink() as sink:
            assert await hand_in(sink, "ops@example.com", "b@example.org") is None
        [mail] = sink.mails
        assert (mail.sender, mail.recipients) == (SENDER, ["ops@example.com", "b@example.org"])
        parsed = mail.parsed
        assert parsed["Subject"] == f"[Tickwheel] {MESSAGE.title}"
        assert (parsed["From"], parsed["To"]) == (SENDER, "ops@example.com, b@example.org")
        assert parsed["Message-ID"] == "<ntf_1@example.com>"
        text = parsed.get_content()  # type: ignore[attr-defined]  # of the modern policy's messages
        assert text.replace("\r\n", "\n") == MESSAGE.text

    run(scenario)


@pytest.mark.parametrize("at_once", [False, True])
def test_connection_is_encrypted_before_the_password(at_once: bool) -> None:
    async def scenario() -> None:
        async with SmtpSink(context(), tls_at_once=at_once, password="p w") as sink:
            assert await hand_in(sink, tls_at_once=at_once, user="me", password="p w") is None
        [mail] = sink.mails
        assert (mail.was_encrypted, mail.user) == (True, "me")
        if not at_once:
            assert sink.commands.index("STARTTLS") < sink.commands.index("AUTH")

    run(scenario)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_certificate_of_nobody_known_gets_no_mail(at_once: bool) -> None:
    async def scenario() -> None:
        async with SmtpSink(context(), tls_at_once=at_once, password="secret") as sink:
            error = await hand_in(sink, ca_file=None, tls_at_once=at_once, user="me", password="secret")
        assert error is not None
        assert "certificate" in error.lower()
        assert "AUTH" not in sink.commands
        assert sink.mails == []

    run(scenario)


def test_a_server_elsewhere_without_tls_gets_no_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MailServer, "is_near", False)

    async def scenario() -> None:
        async with SmtpSink() as sink:
            error = await hand_in(sink)
        assert error is not None
        assert "STARTTLS" in error
        assert sink.mails == []

    run(scenario)


def test_no_password_goes_in_the_clear() -> None:
    async def scenario() -> None:
        async with SmtpSink(password="secret") as sink:
            error = await hand_in(sink, user="me", password="secret")
        assert error is not None
        assert "without TLS" in error
        assert "AUTH" not in sink.commands

    run(scenario)


@pytest.mark.parametrize(
    ("setup", "word"),
    [
        ({"refuses": {"ops@example.com"}}, "ops@example.com: 550 no such user"),
        ({"says": {"MAIL": "451 later"}}, "451 later"),
        ({"says": {"DATA": "554 spam \x1b[31m"}}, "554 spam"),
        ({"says": {"": "554 go away"}}, "554"),
        ({"says": {"EHLO": "500 what", "HELO": "500 what"}}, "500"),
    ],
)
def test_what_the_server_says_is_told(setup: dict[str, Any], word: str) -> None:
    async def scenario() -> None:
        async with SmtpSink(**setup) as sink:
            error = await hand_in(sink)
        assert error is not None
        assert word in error
        assert error.isprintable()

    run(scenario)


def test_who_was_refused_among_several_is_told() -> None:
    async def scenario() -> None:
        async with SmtpSink(refuses={"gone@example.com"}) as sink:
            error = await hand_in(sink, "ops@example.com", "gone@example.com")
        assert error is not None
        assert "gone@example.com" in error
        assert "ops@example.com" not in error

    run(scenario)


def test_a_server_that_is_away_is_told() -> None:
    async def scenario() -> None:
        async with SmtpSink() as sink:
            pass
        error = await hand_in(sink)
        assert error is not None
        assert "can't be reached" in error

    run(scenario)


def test_a_wrong_password_is_told_without_the_password() -> None:
    async def scenario() -> None:
        async with SmtpSink(context(), password="right") as sink:
            error = await hand_in(sink, user="me", password="wrong-secret")
        assert error is not None
        assert "535" in error
        assert "wrong-secret" not in error

    run(scenario)


@pytest.mark.parametrize("title", ["x\r\nBcc: evil@example.com", "x\nBcc: evil@example.com", "x\r\n\r\nbody"])
def test_no_line_break_gets_into_a_header(title: str) -> None:
    message = Message("ntf_1", "t", title, "text", b"")
    with pytest.raises(ValueError, match=r"linefeed|carriage"):
        compose_mail(SENDER, ("ops@example.com",), message, 0)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587, False)),
        ("smtps://u:p%40@mail.example.com", MailServer("mail.example.com", 465, True, "u", "p@")),
        ("smtp://[::1]:2525", MailServer("::1", 2525, False)),
    ],
)
def test_address_of_a_server_is_read(url: str, server: MailServer) -> None:
    assert read_mail_server(url) == server
    assert server.password not in repr(server) or not server.password


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.com",
        "http://mail.example.com",
        "smtp://",
        "smtp://mail.example.com/x",
        "smtp://mail.example.com:0",
        "smtp://mail.example.com:99999",
        "smtp://secret@mail.example.com",
        "smtp://u:secret@mail.example.com\r\n",
        "smtp://u:secret@mail.example.com?tls=no",
    ],
)
def test_odd_address_of_a_server_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_mail_server(url)
    assert "secret" not in str(refused.value)
