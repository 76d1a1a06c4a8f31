"""The gate that every webhook passes: what the settings and the tenant's egress policy allow, taken together.

A gate belongs to one policy. It judges twice: the URL when an attempt starts (and when a job is made), and the
addresses when the name was resolved. What a name resolves to is known to all gates, what may be done with that
is each gate's own: a private address that one tenant may reach opens nothing to another one.
"""

from dataclasses import replace
from typing import Final

from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.egress_names import name_refusal
from tickwheel.adapters.webhook.endpoint import Endpoint, EndpointRefused, parse_endpoint
from tickwheel.adapters.webhook.lookup import Answer, Found
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.egress import DIRECT, EgressPolicy, read_networks
from tickwheel.domain.egress_proxy import DEFAULT_NAME

ENDPOINT_CACHE_COUNT: Final = 4096
GATE_CACHE_COUNT: Final = 1024
_OF_THE_SETTINGS: Final = EgressPolicy()
TENANT_LIST: Final = "allow_private of the tenant's egress policy"


class Gate:
    """Judges for one policy. `problem` says why nothing can go out at present, if so."""

    __slots__ = ("_addresses", "_endpoints", "_policy", "_ports", "problem", "proxy")

    def __init__(
        self, policy: EgressPolicy, settings: WebhookSettings, endpoints: dict[tuple["Gate", str], Endpoint | str]
    ) -> None:
        self._policy = policy
        self._ports = settings.ports
        self._addresses = _addresses(policy, settings.addresses)
        self._endpoints = endpoints  # shared by all gates, which bounds it for all of them together
        name = DEFAULT_NAME if policy.proxy is None else policy.proxy
        self.proxy = settings.proxies.get(name)
        known = self.proxy is not None or name in (DEFAULT_NAME, DIRECT)
        self.problem = None if known else f"the proxy {name!r} of the tenant's egress policy is not set up here"

    @property
    def leaves_names_alone(self) -> bool:
        """Whether the proxy looks names up, so that nobody here judges their addresses."""
        return self.proxy is not None and self.proxy.resolves

    def endpoint(self, text: str) -> Endpoint | str:
        """The target to call, or why it may not be."""
        known = self._endpoints.get((self, text))
        if known is None:
            known = self._read(text)
            if len(self._endpoints) >= ENDPOINT_CACHE_COUNT:
                self._endpoints.clear()
            self._endpoints[self, text] = known
        return known

    def _read(self, text: str) -> Endpoint | str:
        try:
            endpoint = parse_endpoint(text)
        except EndpointRefused as refusal:
            return str(refusal)
        host, address = endpoint.host, endpoint.address
        if endpoint.port not in self._ports:
            return f"the endpoint's port {endpoint.port} may not be called (not listed in setting webhook_ports)"
        reason = name_refusal(host, self._addresses) if address is None else self._addresses.refusal(address)
        if reason is not None:
            return f"the endpoint's host is {reason}"
        reason = self._policy.refusal(host, endpoint.port, address)
        if reason is None and address is None and self.leaves_names_alone:
            # Nobody here learns its addresses, so its name has to be listed.
            reason = self._policy.addresses_refusal(host, endpoint.port, [])
        return endpoint if reason is None else reason

    def answer(self, endpoint: Endpoint, found: Found) -> Answer:
        """What may be done with the addresses of the endpoint's name."""
        answer = found.answers.get((self, endpoint.port))
        if answer is None:
            answer = found.answers[self, endpoint.port] = self._judge(endpoint, found)
        return answer

    def _judge(self, endpoint: Endpoint, found: Found) -> Answer:
        if found.problem is not None:
            return Answer(problem=found.problem, refused=found.refused)
        refusals = (self._addresses.refusal(address) for address in found.addresses)
        reason = next((reason for reason in refusals if reason is not None), None)
        if reason is not None:
            return Answer(problem=f"the name {endpoint.host} resolves to {reason}", refused=True)
        reason = self._policy.addresses_refusal(endpoint.host, endpoint.port, found.addresses)
        if reason is not None:
            return Answer(problem=reason, refused=True)
        return Answer(addresses=tuple(map(str, found.addresses)))


def _addresses(policy: EgressPolicy, of_settings: AddressPolicy) -> AddressPolicy:
    if policy.allow_private is None:
        return of_settings
    networks = read_networks(policy.allow_private)
    return replace(of_settings, allow_loopback=False, allow_private=networks, source=TENANT_LIST)


class Gates:
    """One gate per policy, made when a tenant with that policy first calls."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._of_tenant: dict[str, tuple[EgressPolicy, Gate]] = {}
        self._of_policy: dict[EgressPolicy, Gate] = {}
        self._endpoints: dict[tuple[Gate, str], Endpoint | str] = {}

    def of(self, tenant_id: str) -> Gate:
        """The gate of the tenant's policy as it is now."""
        policy = self._settings.policy_of(tenant_id) or _OF_THE_SETTINGS
        known = self._of_tenant.get(tenant_id)
        if known is not None and known[0] is policy:
            return known[1]
        gate = self._of_policy.get(policy)
        if gate is None:
            gate = self._remember(policy)
        if len(self._of_tenant) >= GATE_CACHE_COUNT:
            self._of_tenant.clear()
        self._of_tenant[tenant_id] = policy, gate
        return gate

    def _remember(self, policy: EgressPolicy) -> Gate:
        if len(self._of_policy) >= GATE_CACHE_COUNT:
            self._of_policy.clear()
        gate = self._of_policy[policy] = Gate(policy, self._settings, self._endpoints)
        return gate
