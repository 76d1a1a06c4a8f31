"""Consul as the coordinator, through its HTTP API: `opening.open_consul_coordinator`.

Tested against a fake of the endpoints that it uses, not against a real agent.
"""

from tickwheel.adapters.consul.opening import open_consul_coordinator

__all__ = ["open_consul_coordinator"]
