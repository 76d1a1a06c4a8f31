"""Drivers that only those have installed who asked for them."""

from importlib import import_module
from typing import Final

from tickwheel.domain.errors import ConfigError, FieldProblem

_NAMES: Final = {"psycopg": ("PostgreSQL", "postgresql"), "redis": ("Redis", "redis")}


def require(module: str, setting: str) -> None:
    """Raise `ConfigError` for that setting where the driver is not installed."""
    name, extra = _NAMES[module]
    try:
        import_module(module)
    except ImportError as error:
        message = f"needs the {name} driver ({error}): pip install 'tickwheel[{extra}]'"
        raise ConfigError([FieldProblem(setting, message, "missing_extra")]) from error
