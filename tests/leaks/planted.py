"""Secrets that are planted, and where they were found again."""

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final


def whsec(text: str) -> str:
    """A signing secret that holds this text, 32 bytes of it."""
    return "whsec_" + base64.b64encode(text.encode().ljust(32, b"-")[:32]).decode()


def key_line(key_id: str, text: str) -> str:
    """A key of stored secrets that is this text, 32 bytes of it."""
    return f"{key_id}:" + base64.b64encode(text.encode().ljust(32, b"-")[:32]).decode()


PLANTED: Final[Mapping[str, str]] = {
    "a header": "planted-header-4f1d0c",
    "a second header": "planted-api-key-of-the-target-77a2",
    "the first value of an edited header": "planted-before-the-edit-9e",
    "a header that was refused": "planted-refused-header-c0ffee",
    "a password in an address": "planted-address-password-31",
    "a signing secret": whsec("planted-signing-one"),
    "a signing secret that replaced it": whsec("planted-signing-two"),
    "a signing secret that is none": "whsec_planted-none",
    "webhook_secret": whsec("planted-installation"),
    "jwt_secret": "planted-jwt-secret-of-the-installation-0b",
    "token": "planted-static-token-5d9c1e",
    "a wrong token": "planted-wrong-token-8b",
    "secrets_key": key_line("k1", "planted-key-one"),
    "the password of the store": "planted-store-password-66",
    "the password of the proxy": "planted-proxy-password-12",
    "a setting that was refused": "planted-short",
}
"""By what each is."""


class Told:
    """All that was said to anybody: pieces of text with where they came from."""

    def __init__(self) -> None:
        self._secrets = {name: _marks(text) for name, text in PLANTED.items()}
        self._pieces: list[tuple[str, bytes]] = []

    def plant(self, name: str, text: str) -> None:
        """One more, that was made on the way."""
        self._secrets[name] = _marks(text)

    def note(self, place: str, text: str | bytes) -> None:
        """Somebody was told this."""
        self._pieces.append((place, text.encode() if isinstance(text, str) else text))

    def note_files(self, folder: Path) -> None:
        """What is in all files of a folder, as it is."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.note(str(path), path.read_bytes())

    def found(self) -> list[str]:
        """Which secret was found where."""
        return sorted(set(self._found()))

    def _found(self) -> Iterator[str]:
        for place, piece in self._pieces:
            for name, marks in self._secrets.items():
                if any(mark in piece for mark in marks):
                    yield f"{name}, in {place}"

    def __len__(self) -> int:
        return len(self._pieces)

    def drop(self, *places: str) -> None:
        """Forget what these said: it was theirs to tell."""
        self._pieces = [piece for piece in self._pieces if piece[0] not in places]

    def about(self, place: str) -> bytes:
        """Everything from places that begin so."""
        return b"\n".join(piece for where, piece in self._pieces if where.startswith(place))


def _marks(text: str) -> list[bytes]:
    """What gives a secret away: itself without its prefix or id, what its base64 holds, its own base64."""
    bare = re.sub(r"^(whsec_|k1:|tw_[^_]*_)", "", text)
    marks = [bare.encode()]
    if text.startswith(("whsec_", "k1:")) and not bare.startswith("planted"):
        marks.append(base64.b64decode(bare).rstrip(b"-"))
    # Three forms, by where in a longer text the secret begins; what depends on its neighbours is cut off.
    return marks + [base64.b64encode(bytes(n) + bare.encode())[4 if n else 0 : -4] for n in range(3)]
