"""etcd as the coordinator, through its JSON gateway: `opening.open_etcd_coordinator`."""

from tickwheel.adapters.etcd.opening import open_etcd_coordinator

__all__ = ["open_etcd_coordinator"]
