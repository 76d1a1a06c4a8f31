"""How each queue is opened for the suite. An adapter joins by one entry in `BACKENDS`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from .yards import MemoryYard, Yard


@asynccontextmanager
async def memory() -> AsyncIterator[Yard]:
    async with aclosing(MemoryYard()) as yard:
        yield yard


BACKENDS: dict[str, Callable[[], AbstractAsyncContextManager[Yard]]] = {"memory": memory}
