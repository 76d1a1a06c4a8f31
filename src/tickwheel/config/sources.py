"""Where settings come from: file, environment, flags; each value with the name under which it was given."""

import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tickwheel.config.rules import check_together
from tickwheel.config.settings import FIELDS, SECRET, TYPES, WITH_PASSWORDS, Settings, setting_default
from tickwheel.config.trace_rules import OTEL_VARIABLES, otel_values
from tickwheel.domain.errors import ConfigError, FieldProblem

ENV_PREFIX: Final = "TICKWHEEL_"
OTHER_VARIABLES: Final = frozenset(
    {"config", "url", "server", "concurrency", "ca_file", "client_cert", "client_key"}
)
"""Read elsewhere: the path of the file, the server that the command line talks to, and what only workers have."""
_TOLD_CHARS: Final = 80
_UNTOLD: Final = SECRET.union(WITH_PASSWORDS, {"egress_proxy"})
_WORDS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


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
            if name in FIELDS:
                values[name], origin[name] = _split(name, text), key
            elif name not in OTHER_VARIABLES:
                problems.append(_unknown(key, name, lambda near: ENV_PREFIX + near.upper()))
    for key, text in otel_values(environ, {*values, *flags}).items():
        name = OTEL_VARIABLES[key]
        values[name], origin[name] = _split(name, text), key
    for name, value in flags.items():
        values[name], origin[name] = value, "--" + name.replace("_", "-")
    checked = {name: _check(name, value, origin[name], problems) for name, value in values.items()}
    settings = Settings(**checked)
    check_together(settings, origin, problems)
    if problems:
        raise ConfigError(problems)
    return settings


def _read_file(path: Path | None, problems: list[FieldProblem]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(FieldProblem(field="config", message=f"{path}: {error.strerror or error}"))
        return {}
    except RecursionError:
        problems.append(FieldProblem(field=str(path), message="can't be read as a TOML file: it nests too deeply"))
        return {}
    except ValueError as error:  # no TOML, no UTF-8, a number of thousands of digits
        problems.append(FieldProblem(field=str(path), message=f"can't be read as a TOML file: {error}"))
        return {}
    known = {}
    for name, value in data.items():
        if name in FIELDS:
            known[name] = tuple(value) if isinstance(value, list) else value
        else:
            problems.append(_unknown(f"{path}: {name}", name, str))
    return known


def _unknown(shown: str, name: str, spell: Callable[[str], str]) -> FieldProblem:
    near = get_close_matches(name, FIELDS, n=1)
    hint = f"; did you mean {spell(near[0])}?" if near else ""
    return FieldProblem(field=shown, message=f"there is no such setting{hint}", code="unknown")


def _split(name: str, text: str) -> Any:
    if TYPES[name] == tuple[str, ...]:
        return _parts(text)
    return text


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check(name: str, value: Any, shown: str, problems: list[FieldProblem]) -> Any:
    wanted = TYPES[name]
    if wanted is bool:
        return _check_bool(name, value, shown, problems)
    if wanted is int:
        return _check_int(name, value, shown, problems)
    if wanted == tuple[str, ...]:
        value = (value,) if isinstance(value, str) else value
        if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
            return (
                tuple(part for text in value for part in _parts(text))
                if FIELDS[name].metadata["by_comma"]
                else value
            )
        problems.append(FieldProblem(field=shown, message="must be a text or a list of texts"))
        return setting_default(name)
    if not isinstance(value, str):
        problems.append(FieldProblem(field=shown, message=f"must be a text, not {_told(name, value)}"))
        return setting_default(name)
    return value


def _check_bool(name: str, value: Any, shown: str, problems: list[FieldProblem]) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    problems.append(FieldProblem(field=shown, message=f"must be true or false, not {_told(name, value)}"))
    return False


def _check_int(name: str, value: Any, shown: str, problems: list[FieldProblem]) -> int:
    low, high = FIELDS[name].metadata["low"], FIELDS[name].metadata["high"]
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        number = int(value)
    if number is None or not low <= number <= high:
        problems.append(
            FieldProblem(
                field=shown, message=f"must be a whole number from {low} to {high}, not {_told(name, value)}"
            )
        )
        return int(low)
    return number


def _told(name: str, value: Any) -> str:
    """A wrong value, for its message: cut short, and not at all where it may be a secret."""
    if name in _UNTOLD:
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return f"such a long {type(value).__name__}"
    return text if len(text) <= _TOLD_CHARS else f"{text[:_TOLD_CHARS]}..."
