"""Whose request is it? Tokens of the settings, API keys of the registry, and tokens of an issuer (JWT).

A token that was found is remembered by its digest until it ends by itself, or any key changes. So a request costs
one digest and one look-up; nothing keeps tokens in the clear.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwheel.domain.access import ANONYMOUS, STATIC_TOKEN, Principal
from tickwheel.domain.api_keys import PREFIX
from tickwheel.ports.clock import Clock
from tickwheel.ports.tokens import TokenRefused, TokenVerifier
from tickwheel.services.api_keys import ApiKeys

REMEMBERED_COUNT: Final = 20_000
WHYS: Final = ("no_token", "bad_header", "bad_token")
"""Why a request is refused; counted."""
_LONGEST_TOKEN_BYTES: Final = 16_384
_FOR_EVER_MS: Final = 1 << 62


class _Remembered(NamedTuple):
    principal: Principal
    until_ms: int
    generation: int  # of the keys
    key_id: str


class Authentication:
    """`required` False: whoever sends no known token is `ANONYMOUS`, who may do everything."""

    def __init__(
        self,
        clock: Clock,
        *,
        tokens: Sequence[str] = (),
        keys: ApiKeys | None = None,
        verifier: TokenVerifier | None = None,
        required: bool | None = None,
    ) -> None:
        self._clock, self._keys, self._verifier = clock, keys, verifier
        self._tokens = tuple(token.encode() for token in tokens)
        self._remembered: dict[bytes, _Remembered] = {}
        self._required = (bool(tokens) or verifier is not None) if required is None else required
        self._ask_when_set_up = False
        self.refused: Counter[str] = Counter()

    @property
    def is_set_up(self) -> bool:
        """Whether there is any token that it would know."""
        has_keys = self._keys is not None and self._keys.exist
        return bool(self._tokens) or self._verifier is not None or has_keys

    @property
    def required(self) -> bool:
        """Whether a request needs a token that is known. Once it does, it stays so, though the last key may go."""
        if self._ask_when_set_up and not self._required:
            self._required = self.is_set_up
        return self._required

    def ask(self, *, when_set_up: bool) -> None:
        """From now on ask for a token as soon as there is one that would be known; or else never."""
        self._ask_when_set_up, self._required = when_set_up, False

    def recall(self, token: bytes) -> Principal | None:
        """The principal of a token that was found not long ago."""
        found = self._remembered.get(_digest(token))
        if found is None or found.generation != self._generation or self._clock.now_ms() >= found.until_ms:
            return None
        if found.key_id and self._keys is not None:
            self._keys.used(found.key_id)
        return found.principal

    def still_holds(self, token: bytes) -> bool:
        """Whether a token that was found not long ago is good now, for what takes long. It asks nobody."""
        if not self.required or self._is_static(token):
            return True
        text = token.decode("latin-1")
        if text.startswith(PREFIX):
            return self._keys is not None and self._keys.find(text) is not None
        found = self._remembered.get(_digest(token))
        return found is not None and self._clock.now_ms() < found.until_ms

    async def find(self, token: bytes) -> Principal:
        """The principal of a token. Raises `TokenRefused`; a server that needs none lets everybody in."""
        try:
            return await self._find(token)
        except TokenRefused:
            if not self.required:
                return ANONYMOUS
            self.refused["bad_token"] += 1
            raise

    async def _find(self, token: bytes) -> Principal:
        if len(token) > _LONGEST_TOKEN_BYTES:
            raise TokenRefused("The token is too long.")
        if self._is_static(token):
            return self._remember(token, STATIC_TOKEN, _FOR_EVER_MS)
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise TokenRefused("The token is not known.") from None
        if text.startswith(PREFIX):
            return self._key(token, text)
        if self._verifier is None or text.count(".") != 2:
            raise TokenRefused("The token is not known.")
        verified = await self._verifier.verify(text, self._clock.now_ms())
        return self._remember(token, verified.principal, verified.until_ms)

    def _key(self, token: bytes, text: str) -> Principal:
        found = None if self._keys is None else self._keys.find(text)
        if found is None:
            raise TokenRefused("The token is not known, or no longer valid.")
        until_ms = _FOR_EVER_MS if found.until_ms is None else found.until_ms
        return self._remember(token, found.principal, until_ms, found.key_id)

    def _is_static(self, given: bytes) -> bool:
        # All are compared, each in constant time: neither bytes nor position of a token show in how long it takes.
        known = False
        for token in self._tokens:
            known |= hmac.compare_digest(token, given)
        return known

    def _remember(self, token: bytes, principal: Principal, until_ms: int, key_id: str = "") -> Principal:
        if len(self._remembered) >= REMEMBERED_COUNT:
            self._remembered.clear()
        self._remembered[_digest(token)] = _Remembered(principal, until_ms, self._generation, key_id)
        return principal

    @property
    def _generation(self) -> int:
        return 0 if self._keys is None else self._keys.generation


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
