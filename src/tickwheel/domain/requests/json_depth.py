"""How deep a JSON text nests, without decoding it."""

import re
from typing import Final

import numpy as np

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""One without an end goes on to that of the text; looked for again at each of its quotes, it would take hours."""
_STEP: Final = np.zeros(256, dtype=np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def nests_deeper_than(text: bytes, limit: int) -> bool:
    """Whether more than `limit` objects and arrays are open at once anywhere."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    outside_strings = _STRING.sub(b"", text)
    steps = _STEP[np.frombuffer(outside_strings, dtype=np.uint8)]
    return bool(steps.cumsum(dtype=np.int64).max(initial=0) > limit)
