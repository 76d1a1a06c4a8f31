"""The limits of concurrency that a stored job states, as its claims count them."""

from functools import lru_cache

import msgspec

from tickwheel.domain.concurrency import Counted, counted
from tickwheel.domain.job import decode_spec


@lru_cache(maxsize=8_192)
def stated_limits(tenant_id: str, job_name: str, spec: str | None, tenant_limit: int) -> tuple[Counted, ...]:
    """The limits in a stored spec, and that of its tenant; none where it can't be read: nothing claims its runs.

    `spec` None: it states none.
    """
    try:
        return counted(() if spec is None else decode_spec(spec).concurrency, tenant_id, job_name, tenant_limit)
    except (msgspec.MsgspecError, UnicodeError):
        return ()
