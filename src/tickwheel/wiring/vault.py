"""The vault from the settings: where its keys come from.

Keys of the settings come first, then those of the file, then those of the command: the first of all seals, each of
them opens. An embedded store has a key file of its own in its folder, which is made at the first start if nothing
else is set; what was sealed under it still opens when keys are set later. Without any key a store on PostgreSQL
keeps secrets as they are, and every start says so.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tickwheel.adapters.vault.key_sources import (
    KeysUnreadable,
    keys_in_file,
    keys_of_command,
    keys_of_folder,
    new_key,
)
from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.config import Settings
from tickwheel.config.secret_keys import SecretKey, key_line, parse_secret_key, without_repetitions
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.wiring.schema import sqlite_path
from tickwheel.wiring.stores import store_url

UNSEALED: Final = (
    "secrets of jobs are stored in the clear: set a key (--secrets-key-file, TICKWHEEL_SECRETS_KEY or "
    "--secrets-key-command; `tickwheel secrets keygen` makes one), then run `tickwheel secrets reseal`"
)
"""What is unwise about a shared store without a key."""


def open_vault(settings: Settings) -> KeyVault:
    """The vault of a node, or of a worker with a store; blocks. Raises `ConfigError`."""
    return _vault(settings, make=True)


def find_vault(settings: Settings) -> KeyVault:
    """The same for tools that only look: makes no key file."""
    return _vault(settings, make=False)


def make_key_line(key_id: str = "") -> str:
    """A line with a new key, as the settings and files of keys take it."""
    return key_line(new_key(key_id))


def _vault(settings: Settings, *, make: bool) -> KeyVault:
    keys = [parse_secret_key(text) for text in settings.secrets_key]
    if settings.secrets_key_file:
        keys += _read("secrets_key_file", lambda: keys_in_file(Path(settings.secrets_key_file)))
    if settings.secrets_key_command:
        keys += _read("secrets_key_command", lambda: keys_of_command(settings.secrets_key_command))
    scheme, _, rest = store_url(settings).partition(":")
    if scheme == "sqlite":
        keys += _read("data", lambda: keys_of_folder(sqlite_path(rest), make=make and not keys))
    elif scheme == "memory" and not keys:
        keys.append(new_key("memory"))
    try:
        return KeyVault(without_repetitions(keys))
    except ValueError as error:
        raise ConfigError([FieldProblem("secrets_key", str(error))]) from None


def _read(setting: str, read: Callable[[], list[SecretKey]]) -> list[SecretKey]:
    try:
        return read()
    except KeysUnreadable as error:
        raise ConfigError([FieldProblem(setting, str(error))]) from None
