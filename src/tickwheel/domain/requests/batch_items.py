"""The items of a batch, each as its own text, when some of them are no texts that a strict decoder takes.

One bad item must not fail the others: a lone surrogate, a NaN or a byte that is not UTF-8 in one job makes the
strict decoder refuse the whole array. The array is then cut at its own commas, and each item is judged alone.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)


def cut_array(raw: bytes) -> list[bytes]:
    """The items of `raw`, an array by its brackets and quotes (`strict_json.load` has taken it)."""
    items: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(raw):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                items.append(raw[start : token.start()])
        elif mark == b"," and depth == 1:
            items.append(raw[start : token.start()])
            start = token.end()
    return items if len(items) > 1 or items[0].strip() else []
