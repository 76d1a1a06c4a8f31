"""Settings: defaults < TOML file < environment < flags, checked all at once.

Each setting has one name: `--retention-days` on the command line, `TICKWHEEL_RETENTION_DAYS` in the environment,
`retention_days` in the file. A wrong value is reported with the name under which it was given, together with all
other wrong ones.
"""

from tickwheel.config.server_trust import ServerTrust
from tickwheel.config.settings import (
    CLUSTER_SCHEMES,
    DEFAULT_PORT,
    LOOPBACK_HOSTS,
    MAX_PORT,
    Role,
    Settings,
    default_text,
    setting_default,
    setting_help,
)
from tickwheel.config.sources import ENV_PREFIX, load_settings
from tickwheel.config.worker_options import WorkerOptions

__all__ = [
    "CLUSTER_SCHEMES",
    "DEFAULT_PORT",
    "ENV_PREFIX",
    "LOOPBACK_HOSTS",
    "MAX_PORT",
    "Role",
    "ServerTrust",
    "Settings",
    "WorkerOptions",
    "default_text",
    "load_settings",
    "setting_default",
    "setting_help",
]
