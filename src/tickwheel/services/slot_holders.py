"""Who holds the slots of a lane: attempts in flight and timers that are being claimed, by bucket."""

from collections.abc import Iterable

import numpy as np

from tickwheel.domain.columns import FLAG_BUCKET_MASK, FLAG_BUCKET_SHIFT, FLAG_HANDLER, FLAG_LANE_MASK, Ints
from tickwheel.domain.tenants import BUCKET_COUNT
from tickwheel.services.claim_batch import ClaimBatch
from tickwheel.services.inflight import InFlight
from tickwheel.services.ready import KIND_HANDLER


def slots_held(inflight: InFlight, batches: Iterable[ClaimBatch], kind: int, lane: int) -> Ints:
    """Slots of that executor kind and lane, by bucket."""
    parts = [inflight.rows["flags"][inflight.active]]
    parts += [batch.timers["flags"][~batch.started] for batch in batches]
    flags = np.concatenate(parts)
    wanted = lane | (FLAG_HANDLER if kind == KIND_HANDLER else 0)
    flags = flags[flags & (FLAG_LANE_MASK | FLAG_HANDLER) == wanted]
    return np.bincount((flags & FLAG_BUCKET_MASK) >> FLAG_BUCKET_SHIFT, minlength=BUCKET_COUNT)
