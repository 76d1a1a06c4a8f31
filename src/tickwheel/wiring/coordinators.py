"""Which coordinator a URL names."""

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Coordinator


def open_coordinator(settings: Settings, clock: Clock) -> Coordinator:
    """`etcd:` or `consul:` where that is set, else rows in the store. Raises `ConfigError`; sends nothing yet."""
    url = settings.coordinator or settings.store
    scheme = url.partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        from tickwheel.adapters.postgresql.coordinator import open_postgresql_coordinator

        return open_postgresql_coordinator(url)
    if scheme in ("etcd", "etcds"):
        from tickwheel.adapters.etcd import open_etcd_coordinator

        return open_etcd_coordinator(url, clock, cluster=settings.cluster)
    if scheme in ("consul", "consuls"):
        from tickwheel.adapters.consul import open_consul_coordinator

        return open_consul_coordinator(url, clock, cluster=settings.cluster)
    raise ConfigError([FieldProblem("coordinator", f"there is no coordinator of kind {scheme!r}")])
