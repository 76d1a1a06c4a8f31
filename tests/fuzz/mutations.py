"""Inputs made from other inputs, the same ones for the same seed."""

import random
from collections.abc import Sequence

LONGEST_BYTES = 64 << 10
_ODD = (
    *(b"\x00", b"\n", b"\r\n", b"\t", b" ", b"\x7f", b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *("\u00a0".encode(), "\uff11".encode(), "\u0663".encode(), "\u00b2".encode(), "\u2100".encode()),
    *("\u0130".encode(), "\u212a".encode(), "\U0001f600".encode(), b"\xed\xa0\x80", b"\xed\xb2\x80"),
    *(b"%", b"%00", b"%ff", b"+", b"&", b"=", b"#", b"?", b"/", b"//", b"\\", b"@", b":", b"[", b"]", b"{", b"}"),
    *(b'"', b'\\"', b"'", b"`", b",", b";", b"*", b"-", b"_", b".", b"..", b"0", b"-1", b"1e999", b"0x", b"NaN"),
    *(b"null", b"true", b"9" * 20, b"9" * 310, b"1" * 4_301, b"-9223372036854775808", b"18446744073709551616"),
)


class Mutator:
    """Changes an input in one to a few places; now and then it joins two of them, or makes one very long."""

    def __init__(self, corpus: Sequence[bytes], words: Sequence[bytes], seed: int) -> None:
        self._corpus = list(corpus) or [b""]
        self._words = (*words, *_ODD)
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """Another one."""
        choose = self._random
        data = choose.choice(self._corpus)
        if choose.random() < 0.1:
            other = choose.choice(self._corpus)
            data = data[: choose.randint(0, len(data))] + other[choose.randint(0, len(other)) :]
        for _ in range(choose.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            data = self._changed(data)
        return data[:LONGEST_BYTES]

    def keep(self, data: bytes) -> None:
        """Start from this one too."""
        self._corpus.append(data)

    def _changed(self, data: bytes) -> bytes:
        choose = self._random
        start = choose.randint(0, len(data))
        end = min(len(data), start + choose.choice((1, 1, 2, 4, 8, 32, len(data))))
        part = data[start:end]
        match choose.randint(0, 9):
            case 0:
                return data[:start] + data[end:]
            case 1 | 2:
                return data[:start] + choose.choice(self._words) + data[start:]
            case 3 | 4:
                return data[:start] + choose.choice(self._words) + data[end:]
            case 5:
                return data[:start] + bytes([choose.randrange(256)]) + data[start + 1 :]
            case 6:
                flipped = bytes(byte ^ 1 << choose.randrange(8) for byte in part[:1])
                return data[:start] + flipped + data[start + 1 :]
            case 7:
                return data[:end] + part + data[end:]
            case 8:
                return data[:start] + part.swapcase() + data[end:]
            case _:
                return data[:start] + self._row(part) + data[end:]

    def _row(self, part: bytes) -> bytes:
        """Something small many times: what takes quadratic time shows itself here."""
        choose = self._random
        unit = part[:16] if part and choose.random() < 0.5 else choose.choice(self._words)
        return unit * choose.choice((2, 3, 10, 100, 1_000, LONGEST_BYTES // max(1, len(unit))))
