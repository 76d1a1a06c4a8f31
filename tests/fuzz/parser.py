"""What is fuzzed: one parser, how inputs for it are made, and what must hold of every answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hypothesis.strategies import SearchStrategy

from .once_failed import ONCE_FAILED


@dataclass(frozen=True, kw_only=True)
class Parser:
    """`check` feeds it one input and says whether it was taken (True) or refused as documented (False).

    It raises for everything that must not be: another exception than the documented one, a round trip that does
    not close, a secret that is shown. `grammar` makes inputs near the valid forms, `examples` are valid ones to
    mutate, `words` is what the mutator likes to put in. `share`: how many inputs it gets beside the others.
    """

    name: str
    check: Callable[[bytes], bool]
    grammar: Callable[[], SearchStrategy[bytes]]
    examples: Sequence[bytes]
    words: Sequence[bytes] = ()
    share: float = 1.0
    refuses: bool = True  # whether there are inputs that it refuses at all
    close: Callable[[], None] = lambda: None

    def corpus(self) -> list[bytes]:
        """What mutations start from."""
        return [*self.examples, *(seed.data for seed in ONCE_FAILED if seed.parser == self.name)]


def encoded(texts: Iterable[str]) -> list[bytes]:
    """Texts as inputs."""
    return [to_bytes(text) for text in texts]


def to_bytes(text: str) -> bytes:
    """A text as an input; lone surrogates go through."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """An input as a text, whatever it holds: bytes that are not UTF-8 become lone surrogates."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def refused_as(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> bool:
    """Whether `call` raises just that."""
    try:
        call()
    except kind:
        return True
    return False
