"""What each endpoint takes and answers, as data: the one source of the OpenAPI document and of the /docs page.

`build_app` refuses to start when an endpoint has no entry here, or an entry has no endpoint.
"""

from typing import Final

from tickwheel.interfaces.http.operations.access import ACCESS_OPERATIONS
from tickwheel.interfaces.http.operations.dead_letters import DEAD_LETTER_OPERATIONS
from tickwheel.interfaces.http.operations.explanations import EXPLANATION_OPERATIONS
from tickwheel.interfaces.http.operations.jobs import JOB_OPERATIONS
from tickwheel.interfaces.http.operations.live import LIVE_OPERATIONS
from tickwheel.interfaces.http.operations.model import Body, Operation, Param, Reply
from tickwheel.interfaces.http.operations.notifications import NOTIFICATION_OPERATIONS
from tickwheel.interfaces.http.operations.runs import RUN_OPERATIONS
from tickwheel.interfaces.http.operations.secrets import SECRET_OPERATIONS
from tickwheel.interfaces.http.operations.server import SERVER_OPERATIONS
from tickwheel.interfaces.http.operations.slo import SLO_OPERATIONS
from tickwheel.interfaces.http.operations.steering import STEERING_OPERATIONS
from tickwheel.interfaces.http.operations.tenants import TENANT_OPERATIONS
from tickwheel.interfaces.http.operations.workers import WORKER_OPERATIONS

OPERATIONS: Final = (
    *JOB_OPERATIONS,
    *STEERING_OPERATIONS,
    *RUN_OPERATIONS,
    *EXPLANATION_OPERATIONS,
    *DEAD_LETTER_OPERATIONS,
    *WORKER_OPERATIONS,
    *ACCESS_OPERATIONS,
    *SECRET_OPERATIONS,
    *TENANT_OPERATIONS,
    *NOTIFICATION_OPERATIONS,
    *LIVE_OPERATIONS,
    *SLO_OPERATIONS,
    *SERVER_OPERATIONS,
)

__all__ = ["OPERATIONS", "Body", "Operation", "Param", "Reply"]
