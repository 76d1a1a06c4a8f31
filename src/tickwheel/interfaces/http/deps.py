"""What the HTTP API is made of, handed in by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass

from tickwheel.domain.job import Target
from tickwheel.interfaces.http.resource import Watch
from tickwheel.ports.clock import Clock
from tickwheel.ports.registry import Registry
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import Store
from tickwheel.ports.vault import NO_VAULT, Vault
from tickwheel.services.api_keys import ApiKeys
from tickwheel.services.authentication import Authentication
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.explanations import Explanations
from tickwheel.services.jobs import Jobs
from tickwheel.services.live.forecasting import Forecasting
from tickwheel.services.live.overview import Lookout
from tickwheel.services.load import Demand
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.punctuality import Punctuality
from tickwheel.services.quotas import Quotas
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.runs import Runs
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.services.tenants import Tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """`metrics` gives the Prometheus text; `authentication` says whose a request is, `quotas` may refuse it then.

    `unfit` says why this node should get no requests, `refusal` why the store takes no writes, or nothing. With
    `serves_api` false there is only what load balancers and monitoring ask for. `waits_for` says why due runs of a
    tenant are held back here. `workers` serves those that poll, `demand` says how many workers are needed,
    `punctuality` how late starts are; None: not on this node. `shards` None: this node is alone on its store.
    `watch` sees all requests.
    """

    jobs: Jobs
    runs: Runs
    dead_letters: DeadLetters
    store: Store
    clock: Clock
    metrics: Callable[[], bytes]
    authentication: Authentication
    unfit: Callable[[], str] = lambda: ""
    refusal: Callable[[], str] = lambda: ""
    serves_api: bool = True
    waits_for: Callable[[Target, str], str | None] = lambda target, tenant_id: None
    workers: WorkerDesk | None = None
    demand: Demand | None = None
    punctuality: Punctuality | None = None
    lookout: Lookout | None = None
    forecasting: Forecasting | None = None
    explanations: Explanations | None = None
    shards: ShardStore | None = None
    api_keys: ApiKeys | None = None
    registry: Registry | None = None
    signing_secrets: SigningSecrets | None = None
    tenants: Tenants | None = None
    quotas: Quotas | None = None
    notifications: NotificationRules | None = None
    vault: Vault = NO_VAULT
    watch: Watch | None = None
