"""Where mail is handed in, from an address such as smtp://user:password@mail.example.com:587.

`smtps://` is TLS from the first byte. `smtp://` turns it on (STARTTLS) before anything is said, and a server that
can't is refused, unless it is this machine's own: there mail may go in the clear. Passwords never do.
"""

from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

SUBMISSION_PORT: Final = 587
SMTPS_PORT: Final = 465
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class MailServer(NamedTuple):
    """Read from its address."""

    host: str
    port: int
    tls_at_once: bool
    user: str = ""
    password: str = ""

    @property
    def is_near(self) -> bool:
        """Whether it is on this machine."""
        return self.host in _LOOPBACK

    def __repr__(self) -> str:
        return f"MailServer({self.host!r}, {self.port})"


def read_mail_server(url: str) -> MailServer:
    """Raises ValueError with the remedy, never quoting the password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(_WANTED) from None
    if parts.scheme not in ("smtp", "smtps") or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(_WANTED)
    if port == 0 or any(char.isspace() or not char.isprintable() for char in url):
        raise ValueError(_WANTED)
    if bool(parts.username) != bool(parts.password):
        raise ValueError("has a user without a password, or the other way round; give both or none")
    at_once = parts.scheme == "smtps"
    return MailServer(
        host,
        port or (SMTPS_PORT if at_once else SUBMISSION_PORT),
        at_once,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


_WANTED: Final = (
    "must look like smtp://user:password@mail.example.com:587 or smtps://…; write odd signs of a password as %40"
)
