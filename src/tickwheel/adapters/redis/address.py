"""Reads the URL of a Redis (`redis://user:password@host:6379/0`) or a Redis Cluster (`redis+cluster://h1,h2:7001`).

With `rediss://` and `rediss+cluster://` it is spoken to over TLS (`?ca=FILE&cert=FILE&key=FILE`). Secrets are
taken out of the URL here and shown nowhere again: not in `repr`, not in errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.redaction import has_odd_user_part

PORT: Final = 6379
SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_OPTIONS: Final = frozenset({"ca", "cert", "key"})
_TOLD_CHARS: Final = 80
_FORM: Final = (
    "expected redis://USER:PASSWORD@HOST:PORT/NUMBER or redis+cluster://HOST:PORT,HOST:PORT "
    "(rediss://, rediss+cluster:// for TLS, with ?ca=FILE&cert=FILE&key=FILE)"
)


class Place(NamedTuple):
    """Where one server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """Where the servers are, and how to speak to them."""

    scheme: str
    places: tuple[Place, ...]  # one, unless it is a cluster
    database: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = field(default=None, repr=False)

    @property
    def is_cluster(self) -> bool:
        """Whether keys are spread over several masters."""
        return self.scheme.endswith("+cluster")

    @property
    def tls(self) -> bool:
        """Whether servers are spoken to over TLS."""
        return self.scheme.startswith("rediss")

    @property
    def described(self) -> str:
        """For people and logs."""
        return f"{self.scheme}://{','.join(map(str, self.places))}"

    @property
    def options(self) -> Mapping[str, Any]:
        """What a connection of redis-py is made with, besides the place."""
        options: dict[str, Any] = {"db": self.database}
        if self.password:
            options |= {"username": self.user or None, "password": self.password}
        if self.tls:
            options |= {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
        return options


def read_address(url: str, *, setting: str) -> RedisAddress:
    """Parse it; raises `ConfigError` for that setting, in words that hold no secret."""
    try:
        return _read(url)
    except ValueError as error:
        raise ConfigError([FieldProblem(setting, f"{error}; {_FORM}")]) from None


def _read(url: str) -> RedisAddress:
    if has_odd_user_part(url):
        raise ValueError("in a user or password / is written %2F, ? %3F and # %23")
    try:
        parts = urlsplit(url)
    except ValueError:  # its text holds all of the user's part
        raise ValueError("that is no address of a Redis") from None
    if parts.scheme not in SCHEMES or not url.partition(":")[2].startswith("//"):
        raise ValueError("that is no address of a Redis")
    user_part, _, hosts = parts.netloc.rpartition("@")
    user, _, password = user_part.partition(":")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    address = RedisAddress(
        scheme=parts.scheme,
        places=tuple(_place(text) for text in hosts.split(",")),
        database=_database(parts.path.strip("/")),
        user=unquote(user),
        password=unquote(password),
        ca_file=options.get("ca"),
        cert_file=options.get("cert"),
        key_file=options.get("key"),
    )
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ValueError(f"there is no option {unknown[0][:_TOLD_CHARS]!r}")
    if options and not address.tls:
        raise ValueError(f"{', '.join(sorted(options))} only make sense with rediss://, which speaks TLS")
    if address.is_cluster and address.database:
        raise ValueError("a Redis Cluster has no numbered databases")
    if not address.is_cluster and len(address.places) > 1:
        raise ValueError("several hosts make sense with redis+cluster:// only")
    if address.user and not address.password:
        raise ValueError("a user needs a password (a password without a user is written :PASSWORD@)")
    return address


def _place(text: str) -> Place:
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        raise ValueError(f"{text[:_TOLD_CHARS]} is no host with a port") from None
    if not parts.hostname:
        raise ValueError("a host is missing")
    try:
        return Place(parts.hostname, parts.port or PORT)
    except ValueError:
        raise ValueError(f"the port of {parts.hostname[:_TOLD_CHARS]} is no number from 1 to 65535") from None


def _database(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("what follows the host must be the number of a database")
    return int(text)
