"""Texts near the valid ones: a valid text, or one with a few odd edits."""

from typing import TypeVar

from hypothesis import strategies as st

from .parser import to_bytes

T = TypeVar("T")

ODD_CHARACTERS = (
    "\x00\n\r\t \x1f\x7f\x85\u00a0\u200b\u2028\ufeff\ud800\udcff\udc80\uff10\u0663\u00b2\u2167\u2100"
    "\u0130\u212a\u00df\U0001f600"
    "%+&=#?/\\@:[]{}()<>\"'`,;|*-_.~!$^09azAZ"
)
ODD = st.one_of(st.sampled_from(ODD_CHARACTERS), st.characters(), st.sampled_from(["9" * 25, "1" * 4_301, "%00"]))
NOISE = st.text(st.one_of(st.sampled_from(ODD_CHARACTERS), st.characters()), max_size=40)
DIGITS = st.one_of(
    st.integers(0, 99).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(
        ["", "00", "-0", "+1", "1.0", "1e3", "0x10", "1_000", "9" * 19, "9" * 400, "\u0661", "\u00b2"]
    ),
)


@st.composite
def edited(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with one to three odd edits."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        match draw(st.integers(0, 4)):
            case 0:
                text = text[:at] + draw(ODD) + text[at:]
            case 1:
                text = text[:at] + draw(ODD) + text[at + 1 :]
            case 2:
                text = text[:at] + text[at + draw(st.integers(1, 8)) :]
            case 3:
                text = text[:at] + text[at // 2 : at] + text[at:]
            case _:
                text = text[:at] + text[at:].swapcase()
    return text


def near(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Valid ones, edited ones, and a little noise."""
    return st.one_of(texts, edited(texts), edited(texts), NOISE).map(to_bytes)


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    """Texts one after the other."""
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def maybe(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """It, or nothing."""
    return st.one_of(st.just(""), texts)


def pick(*texts: str) -> st.SearchStrategy[str]:
    """One of them."""
    return st.sampled_from(texts)
