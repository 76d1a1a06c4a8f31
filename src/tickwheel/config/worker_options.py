"""What a worker is told besides the settings that it shares with servers."""

import msgspec

from tickwheel.config.server_trust import ServerTrust


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Checked already. No server: it uses the store of the settings.

    `tenant_id`: it gets runs of that tenant only. Over HTTP the token says so. `metrics_port` None: it shows none.
    """

    servers: tuple[str, ...] = ()
    token: str | None = None
    trust: ServerTrust = ServerTrust()
    name: str = ""
    low: int = 10
    high: int = 10
    prefetch: int | None = None
    webhooks: bool = False
    tenant_id: str | None = None
    metrics_port: int | None = None
