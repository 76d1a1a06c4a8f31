"""Hands messages of notifications in at a mail server, one connection for each: they are few.

The library is the standard one; it waits, so it works in a thread of its own. Certificates are checked. Header
values are made by `email`, which refuses line breaks, and addresses were read strictly before.
"""

import asyncio
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.domain.mail_server import MailServer
from tickwheel.domain.notifications.messages import Message, one_line
from tickwheel.ports.clock import Clock

TIMEOUT_S: Final = 15
THREADS: Final = 2
ERROR_CHARS: Final = 200


class SmtpCourier:
    """`ca_file` None: the authorities that this machine trusts."""

    def __init__(self, server: MailServer, sender: str, clock: Clock, ca_file: str | None = None) -> None:
        self._server, self._sender, self._clock = server, sender, clock
        self._ca_file = ca_file or find_ca_file()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tickwheel-smtp")

    async def bring(self, addresses: tuple[str, ...], message: Message) -> str | None:
        """None: the server took it for all addresses. Else why not, or for which of them not."""
        mail = compose_mail(self._sender, addresses, message, self._clock.now_ms())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._hand_in, addresses, mail)

    async def aclose(self) -> None:
        """What is under way goes on until its time is over; nobody waits for it."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _hand_in(self, addresses: tuple[str, ...], mail: EmailMessage) -> str | None:
        try:
            with self._connected() as connection:
                refused = connection.send_message(mail, self._sender, list(addresses))
        except smtplib.SMTPRecipientsRefused as error:
            return _refusal(error.recipients)
        except smtplib.SMTPResponseException as error:
            return f"the mail server answered {error.smtp_code} {_text(error.smtp_error)}"
        except smtplib.SMTPException as error:
            return f"the mail server: {one_line(str(error), ERROR_CHARS)}"
        except OSError as error:  # no connection, or a certificate that doesn't fit
            return f"the mail server can't be reached: {one_line(error.strerror or str(error), ERROR_CHARS)}"
        return _refusal(refused) if refused else None

    def _connected(self) -> smtplib.SMTP:
        server, context = self._server, ssl.create_default_context(cafile=self._ca_file)
        us = self._sender.rpartition("@")[2]  # else this machine's name is looked up, which may take long
        if server.tls_at_once:
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, us, timeout=TIMEOUT_S, context=context
            )
        else:
            connection = smtplib.SMTP(server.host, server.port, us, timeout=TIMEOUT_S)
        try:
            self._secure(connection, context)
        except BaseException:
            connection.close()
            raise
        return connection

    def _secure(self, connection: smtplib.SMTP, context: ssl.SSLContext) -> None:
        server = self._server
        connection.ehlo_or_helo_if_needed()
        encrypted = server.tls_at_once
        if not encrypted and (not server.is_near or connection.has_extn("starttls")):
            connection.starttls(context=context)  # raises where the server can't
            connection.ehlo()
            encrypted = True
        if server.user:
            if not encrypted:
                raise smtplib.SMTPNotSupportedError("no password is sent without TLS, and the server has none")
            connection.login(server.user, server.password)


def compose_mail(sender: str, addresses: tuple[str, ...], message: Message, now_ms: int) -> EmailMessage:
    """Plain text. Its id is the message's, so that mail systems know a repetition."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(addresses)
    mail["Subject"] = f"[Tickwheel] {message.title}"
    mail["Date"] = format_datetime(datetime.fromtimestamp(now_ms // 1000, UTC))
    mail["Message-ID"] = f"<{message.id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail


def _refusal(refused: dict[str, tuple[int, bytes]]) -> str:
    told = ", ".join(f"{address}: {code} {_text(answer)}" for address, (code, answer) in sorted(refused.items()))
    return f"the mail server refused {told}"[:1_000]


def _text(answer: bytes | str) -> str:
    return one_line(answer.decode(errors="replace") if isinstance(answer, bytes) else answer, ERROR_CHARS)
