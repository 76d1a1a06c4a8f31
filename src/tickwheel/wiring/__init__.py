"""The composition root: settings in, a running node out. The one package that knows adapters and services."""

from typing import TYPE_CHECKING

from tickwheel.adapters.telemetry.logs import configure_logs
from tickwheel.wiring.access import open_api_keys
from tickwheel.wiring.auditing import FullAudit, audit_store
from tickwheel.wiring.executors import handler_names, registered_handlers
from tickwheel.wiring.exposure import exposure_of
from tickwheel.wiring.inspection import inspect_shared_store
from tickwheel.wiring.node import Node, node_name, open_node
from tickwheel.wiring.schema import (
    SchemaStep,
    after_restore,
    migrate_shared_store,
    pending_steps,
    sqlite_path,
)
from tickwheel.wiring.secrets import open_signing_secrets, reseal_store
from tickwheel.wiring.shared_store import is_shared
from tickwheel.wiring.stores import open_any_store, open_store, require_database, shown_store, store_url
from tickwheel.wiring.system import system_clock, system_randomness
from tickwheel.wiring.tenants import open_tenancy
from tickwheel.wiring.unlimited import start_with_unlimited_credits
from tickwheel.wiring.vault import find_vault, make_key_line
from tickwheel.wiring.worker import WorkerProcess, open_worker

if TYPE_CHECKING:
    from tickwheel.adapters.handlers.registry import Handlers as Handlers
    from tickwheel.wiring.inspection import Inspection as Inspection

__all__ = [
    "FullAudit",
    "Node",
    "SchemaStep",
    "WorkerProcess",
    "after_restore",
    "audit_store",
    "configure_logs",
    "exposure_of",
    "find_vault",
    "handler_names",
    "inspect_shared_store",
    "is_shared",
    "make_key_line",
    "migrate_shared_store",
    "node_name",
    "open_any_store",
    "open_api_keys",
    "open_node",
    "open_signing_secrets",
    "open_store",
    "open_tenancy",
    "open_worker",
    "pending_steps",
    "registered_handlers",
    "require_database",
    "reseal_store",
    "shown_store",
    "sqlite_path",
    "start_with_unlimited_credits",
    "store_url",
    "system_clock",
    "system_randomness",
]
