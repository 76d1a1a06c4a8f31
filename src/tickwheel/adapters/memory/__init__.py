"""The store in memory: the reference for every other one."""

from tickwheel.adapters.memory.store import MemoryStore

__all__ = ["MemoryStore"]
