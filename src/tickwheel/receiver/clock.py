"""The machine's clock, for callers that bring none."""

import time  # noqa: TID251 - a receiver runs apart from Tickwheel, where there is no Clock port


def machine_s() -> float:
    """Seconds since 1970."""
    return time.time()
