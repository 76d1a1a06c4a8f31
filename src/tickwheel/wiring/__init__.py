"""The composition root: settings in, a running node out. The one package that knows adapters and services."""

from tickwheel.wiring.executors import handler_names
from tickwheel.wiring.node import Node, open_node
from tickwheel.wiring.stores import open_store, pending_migrations, shown_store, sqlite_path, store_url
from tickwheel.wiring.system import system_clock, system_randomness
from tickwheel.wiring.unlimited import start_with_unlimited_credits

__all__ = [
    "Node",
    "handler_names",
    "open_node",
    "open_store",
    "pending_migrations",
    "shown_store",
    "sqlite_path",
    "start_with_unlimited_credits",
    "store_url",
    "system_clock",
    "system_randomness",
]
