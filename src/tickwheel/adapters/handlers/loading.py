"""Finds the handlers that `--app module:object` names."""

import importlib
import sys
from pathlib import Path

from tickwheel.adapters.handlers.registry import Handlers, default_handlers
from tickwheel.domain.errors import ConfigError, FieldProblem


def load_handlers(app: str) -> Handlers:
    """Import the user's module, from the current folder too, and give its handlers.

    `module` uses what the module registered through `tickwheel.handler`; `module:object` uses that object if it is
    a `Handlers`, else the same. Raises `ConfigError` with the reason.
    """
    if not app:
        return default_handlers
    name, _, attribute = app.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise _wrong(app, f"can't import {name!r}: {error} (looked in {folder} first)") from error
    except Exception as error:  # whatever the user's module does at import is the user's to see
        raise _wrong(app, f"importing {name!r} failed: {type(error).__name__}: {error}") from error
    chosen = getattr(module, attribute, None) if attribute else None
    handlers = chosen if isinstance(chosen, Handlers) else default_handlers
    if not len(handlers):
        raise _wrong(app, f'{name!r} registers no handler; write @handler("name") before a function')
    return handlers


def _wrong(app: str, message: str) -> ConfigError:
    return ConfigError([FieldProblem(field="app", message=f"{app}: {message}")])
