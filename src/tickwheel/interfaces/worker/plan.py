"""What a command line asks of a worker."""

import msgspec


class WorkerPlan(msgspec.Struct, frozen=True):
    """What the command line asks for, checked. No server: it uses the store."""

    servers: tuple[str, ...]
    token: str | None
    name: str
    low: int
    high: int
    prefetch: int | None
    webhooks: bool
