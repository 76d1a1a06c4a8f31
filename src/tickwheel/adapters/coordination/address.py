"""Reads the URL of a coordinator: `etcd://user:password@h1:2379,h2,h3/prefix?ca=ca.pem`.

Secrets are taken out of the URL here and shown nowhere again: not in `repr`, not in errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.redaction import has_odd_user_part

SETTING: Final = "coordinator"
_OPTIONS: Final = frozenset({"ca", "cert", "key"})
_TOLD_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the servers are, and how to speak to them."""

    scheme: str
    servers: tuple[str, ...]  # host:port
    tls: bool
    prefix: str  # of all keys; ends with a slash
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = field(default=None, repr=False)

    @property
    def described(self) -> str:
        """For people and logs."""
        return f"{self.scheme}://{','.join(self.servers)}"

    @property
    def base_urls(self) -> tuple[str, ...]:
        """What requests begin with, one per server."""
        return tuple(f"{'https' if self.tls else 'http'}://{server}" for server in self.servers)


def read_address(url: str, *, scheme: str, port: int, cluster: str) -> Address:
    """Parse `scheme://` or, for TLS, `schemes://`. Raises `ConfigError` in words that hold no secret.

    Keys lie below `<path of the URL, or tickwheel>/<cluster>/`, so that clusters share a server without meeting.
    """
    if has_odd_user_part(url):
        raise _wrong(f"in a user or password / is written %2F, ? %3F and # %23; {_form(scheme, port)}")
    try:
        parts = urlsplit(url)
    except ValueError:  # its text holds all of the user's part
        raise _wrong(_form(scheme, port)) from None
    try:
        servers = tuple(_server(text, port) for text in parts.netloc.rpartition("@")[2].split(","))
        options = _options(parts.query)
    except ValueError as error:
        raise _wrong(f"{error}; {_form(scheme, port)}") from None
    if parts.scheme not in (scheme, scheme + "s"):
        raise _wrong(_form(scheme, port))
    tls = parts.scheme == scheme + "s"
    if options and not tls:
        raise _wrong(f"{', '.join(sorted(options))} only make sense with {scheme}s://, which speaks TLS")
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return Address(
        scheme=parts.scheme,
        servers=servers,
        tls=tls,
        prefix="/".join(part for part in (parts.path.strip("/") or "tickwheel", cluster) if part) + "/",
        user=unquote(user),
        password=unquote(password),
        ca_file=options.get("ca"),
        cert_file=options.get("cert"),
        key_file=options.get("key"),
    )


def _server(text: str, port: int) -> str:
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        raise ValueError(f"{text[:_TOLD_CHARS]} is no host with a port") from None
    if not parts.hostname:
        raise ValueError("a host is missing")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    try:
        return f"{host}:{parts.port or port}"
    except ValueError:
        raise ValueError(f"the port of {host[:_TOLD_CHARS]} is no number from 1 to 65535") from None


def _options(query: str) -> Mapping[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise ValueError(f"there is no option {unknown[0][:_TOLD_CHARS]!r}")
    return options


def _form(scheme: str, port: int) -> str:
    return (
        f"expected {scheme}://host:{port},host:{port} (or {scheme}s:// for TLS, with ?ca=FILE&cert=FILE&key=FILE)"
    )


def _wrong(message: str) -> ConfigError:
    return ConfigError([FieldProblem(field=SETTING, message=message)])
