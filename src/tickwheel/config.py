"""Settings: defaults < TOML file < environment < flags, checked all at once.

Each setting has one name: `--retention-days` on the command line, `TICKWHEEL_RETENTION_DAYS` in the environment,
`retention_days` in the file. A wrong value is reported with the name under which it was given, together with all
other wrong ones.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, get_type_hints

from tickwheel.domain.errors import ConfigError, FieldProblem

ENV_PREFIX: Final = "TICKWHEEL_"
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT: Final = 8080
SHORTEST_TOKEN_CHARS: Final = 16
STORE_SCHEMES: Final = ("sqlite", "memory")
LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def _setting(default: Any, help_text: str, *, low: int | None = None, high: int | None = None) -> Any:
    metadata = {"help": help_text, "low": low, "high": high}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that an operator may set."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(DEFAULT_PORT, "Port to listen on; 0 takes a free one.", low=0, high=65_535)
    store: str = _setting(
        "", "Where jobs are stored: sqlite:FOLDER or memory: (default: sqlite in the data folder)."
    )
    data: str = _setting(".tickwheel", "Folder for the data of an embedded store.")
    app: str = _setting("", "Python handlers to run: module or module:object.")
    token: tuple[str, ...] = _setting((), "Bearer token that requests must carry; may be given several times.")
    allow_loopback: bool = _setting(False, "Let webhooks call this machine's own loopback addresses.")
    allow_private: tuple[str, ...] = _setting(
        (), "Private network (CIDR) that webhooks may call; several allowed."
    )
    webhook_slots: int = _setting(512, "Webhooks in flight at a time.", low=1, high=10_000)
    webhook_host_limit: int = _setting(
        64, "Webhooks in flight at a time to one host and port.", low=1, high=10_000
    )
    webhook_secret: tuple[str, ...] = _setting((), "Signing secret (whsec_…); two while they are rotated.")
    handler_slots: int = _setting(512, "Python handlers running at a time.", low=1, high=10_000)
    lease_seconds: int = _setting(30, "How long a worker holds a run without renewing.", low=5, high=3_600)
    grace_seconds: int = _setting(10, "How long a stop waits for running work.", low=0, high=3_600)
    window_seconds: int = _setting(3_600, "How far ahead waiting timers are held in memory.", low=60, high=86_400)
    armed_limit: int = _setting(10_000_000, "Most timers held in memory.", low=1_000, high=200_000_000)
    retention_days: int = _setting(7, "How long finished runs and jobs are kept.", low=1, high=3_650)
    log_format: str = _setting("text", "Log lines as text or json.")
    log_level: str = _setting("info", "Least level that is logged: debug, info, warning, error.")

    @property
    def loopback_only(self) -> bool:
        """Whether nobody on another machine can connect."""
        return self.host in LOOPBACK_HOSTS

    def __repr__(self) -> str:
        """Without secrets."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in SECRET}
        return f"Settings({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


SECRET: Final = frozenset({"token", "webhook_secret"})
_TYPES: Final[dict[str, Any]] = get_type_hints(Settings)
_FIELDS: Final = {f.name: f for f in fields(Settings)}


def setting_help(name: str) -> str:
    """One line that explains a setting."""
    return str(_FIELDS[name].metadata["help"])


def setting_default(name: str) -> Any:
    """The value of a setting that nobody gave."""
    chosen = _FIELDS[name]
    return chosen.default if chosen.default is not MISSING else ()


def load_settings(
    *, flags: Mapping[str, Any], environ: Mapping[str, str], config_file: Path | None = None
) -> Settings:
    """Merge all sources and check them. `flags` holds only what was given. Raises `ConfigError`."""
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in _read_file(config_file, problems).items():
        values[name], origin[name] = value, f"{config_file}: {name}"
    for key, text in environ.items():
        if key.startswith(ENV_PREFIX):
            name = key[len(ENV_PREFIX) :].lower()
            if name in _FIELDS:
                values[name], origin[name] = _split(name, text), key
            elif name not in OTHER_VARIABLES:
                problems.append(_unknown(key, name, lambda near: ENV_PREFIX + near.upper()))
    for name, value in flags.items():
        values[name], origin[name] = value, "--" + name.replace("_", "-")
    checked = {name: _check(name, value, origin[name], problems) for name, value in values.items()}
    settings = Settings(**checked)
    _check_texts(settings, origin, problems)
    if problems:
        raise ConfigError(problems)
    return settings


OTHER_VARIABLES: Final = frozenset({"config", "url"})
"""Read elsewhere: the path of the file, and the server that the command line talks to."""


def _read_file(path: Path | None, problems: list[FieldProblem]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(FieldProblem(field="config", message=f"{path}: {error.strerror or error}"))
        return {}
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problems.append(FieldProblem(field=str(path), message=f"can't be read as a TOML file: {error}"))
        return {}
    known = {}
    for name, value in data.items():
        if name in _FIELDS:
            known[name] = tuple(value) if isinstance(value, list) else value
        else:
            problems.append(_unknown(f"{path}: {name}", name, str))
    return known


def _unknown(shown: str, name: str, spell: Callable[[str], str]) -> FieldProblem:
    near = get_close_matches(name, _FIELDS, n=1)
    hint = f"; did you mean {spell(near[0])}?" if near else ""
    return FieldProblem(field=shown, message=f"there is no such setting{hint}", code="unknown")


def _split(name: str, text: str) -> Any:
    if _TYPES[name] == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _check(name: str, value: Any, shown: str, problems: list[FieldProblem]) -> Any:
    wanted = _TYPES[name]
    if wanted is bool:
        return _check_bool(value, shown, problems)
    if wanted is int:
        return _check_int(name, value, shown, problems)
    if wanted == tuple[str, ...]:
        value = (value,) if isinstance(value, str) else value
        if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
            return value
        problems.append(FieldProblem(field=shown, message="must be a text or a list of texts"))
        return ()
    if not isinstance(value, str):
        problems.append(FieldProblem(field=shown, message=f"must be a text, not {value!r}"))
        return setting_default(name)
    return value


def _check_bool(value: Any, shown: str, problems: list[FieldProblem]) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    problems.append(FieldProblem(field=shown, message=f"must be true or false, not {value!r}"))
    return False


def _check_int(name: str, value: Any, shown: str, problems: list[FieldProblem]) -> int:
    low, high = _FIELDS[name].metadata["low"], _FIELDS[name].metadata["high"]
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        number = int(value)
    if number is None or not low <= number <= high:
        problems.append(
            FieldProblem(field=shown, message=f"must be a whole number from {low} to {high}, not {value!r}")
        )
        return int(low)
    return number


def _check_texts(settings: Settings, origin: Mapping[str, str], problems: list[FieldProblem]) -> None:
    def wrong(name: str, message: str) -> None:
        problems.append(FieldProblem(field=origin.get(name, name), message=message))

    if not settings.host.strip():
        wrong("host", "must name an address, such as 127.0.0.1 or 0.0.0.0")
    if settings.store and settings.store.partition(":")[0] not in STORE_SCHEMES:
        known = " or ".join(f"{scheme}:" for scheme in STORE_SCHEMES)
        wrong("store", f"must start with {known}, not {settings.store.partition(':')[0]!r}")
    if settings.log_format not in LOG_FORMATS:
        wrong("log_format", f"must be one of {', '.join(LOG_FORMATS)}")
    if settings.log_level not in LOG_LEVELS:
        wrong("log_level", f"must be one of {', '.join(LOG_LEVELS)}")
    for network in settings.allow_private:
        try:
            ip_network(network)
        except ValueError:
            wrong("allow_private", f"{network!r} is not a network such as 10.0.0.0/8")
    for token in settings.token:
        if len(token) < SHORTEST_TOKEN_CHARS or not token.isascii() or any(c.isspace() for c in token):
            wrong("token", f"a token needs at least {SHORTEST_TOKEN_CHARS} ASCII characters without blanks")
            break
