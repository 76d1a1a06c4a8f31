"""A mail server that keeps what it is given: SMTP with STARTTLS, TLS at once, and passwords."""

import asyncio
import base64
import ssl
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default


@dataclass
class Mail:
    """One mail, with what its envelope said."""

    sender: str
    recipients: list[str]
    raw: bytes
    was_encrypted: bool
    user: str | None

    @property
    def parsed(self) -> Message:
        return message_from_bytes(self.raw, policy=default)


@dataclass
class SmtpSink:
    """`refuses` names recipients that are not taken; `says` replaces the answer to a verb."""

    context: ssl.SSLContext | None = None
    tls_at_once: bool = False
    offers_starttls: bool = True
    password: str | None = None
    refuses: set[str] = field(default_factory=set)
    says: dict[str, str] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> "SmtpSink":
        at_once = self.context if self.tls_at_once else None
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=at_once)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Session(self, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


class _Session:
    def __init__(self, sink: SmtpSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sink, self._reader, self._writer = sink, reader, writer
        self._encrypted = sink.tls_at_once
        self._user: str | None = None
        self._sender = ""
        self._recipients: list[str] = []

    async def run(self) -> None:
        self._say(self._sink.says.get("", "220 sink"))
        while line := (await self._reader.readline()).decode("ascii").rstrip("\r\n"):
            verb = line.partition(" ")[0].upper()
            self._sink.commands.append(verb)
            if verb in self._sink.says:
                self._say(self._sink.says[verb])
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                await self._answer(verb, line)

    async def _answer(self, verb: str, line: str) -> None:
        sink = self._sink
        if verb in ("EHLO", "HELO"):
            offers = ["sink", "8BITMIME"]
            if sink.context is not None and sink.offers_starttls and not self._encrypted:
                offers.append("STARTTLS")
            if sink.password is not None:
                offers.append("AUTH PLAIN")
            for offer in offers[:-1]:
                self._say(f"250-{offer}")
            self._say(f"250 {offers[-1]}")
        elif verb == "STARTTLS":
            assert sink.context is not None
            self._say("220 go on")
            await self._writer.start_tls(sink.context)
            self._encrypted = True
        elif verb == "AUTH":
            _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
            self._user = user if password == sink.password else None
            self._say("235 welcome" if self._user else "535 who are you")
        elif verb == "MAIL":
            self._sender, self._recipients = line.partition("<")[2].partition(">")[0], []
            self._say("250 ok")
        elif verb == "RCPT":
            address = line.partition("<")[2].partition(">")[0]
            if address in sink.refuses:
                self._say("550 no such user")
            else:
                self._recipients.append(address)
                self._say("250 ok")
        elif verb == "DATA":
            self._say("354 go on")
            raw = await self._reader.readuntil(b"\r\n.\r\n")
            raw = raw[:-3].replace(b"\r\n..", b"\r\n.")
            sink.mails.append(Mail(self._sender, self._recipients, raw, self._encrypted, self._user))
            self._say("250 taken")
        else:
            self._say("250 ok")

    def _say(self, line: str) -> None:
        self._writer.write(f"{line}\r\n".encode())
