"""Sealed texts open with the right key in the right place, and nowhere else."""

import base64
import hashlib
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.vault.vault import CACHE_COUNT, NONCE_BYTES, KeyVault, derived
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.requests.target_rules import header_faults
from tickwheel.domain.sealed import SEALED, key_id_of, plain_length
from tickwheel.ports.vault import CannotOpen

OLD = SecretKey("old", hashlib.sha256(b"old").digest())
NEW = SecretKey("new", hashlib.sha256(b"new").digest())
TEXT = "Bearer 5d41402abc4b2a76"
HERE = "header\x1facme\x1fhttps://api.example.com:443\x1fauthorization"

headers = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200)


@given(headers, headers)
def test_what_was_sealed_opens_in_its_context(text: str, context: str) -> None:
    sealed = KeyVault([OLD]).seal(text, context)
    assert sealed.startswith(f"{SEALED}old:")
    assert KeyVault([NEW, OLD]).open(sealed, context) == text
    assert (key_id_of(sealed), plain_length(sealed)) == ("old", len(text))


@given(headers)
def test_the_same_is_sealed_the_same_and_says_nothing_of_its_text(text: str) -> None:
    sealed = KeyVault([OLD]).seal(text, HERE)
    assert sealed == KeyVault([OLD, NEW]).seal(text, HERE)
    assert len(text) < 4 or text not in sealed


def test_another_context_text_or_key_gives_another_nonce() -> None:
    def nonce(key: SecretKey, text: str, context: str) -> bytes:
        encoded = KeyVault([key]).seal(text, context).rpartition(":")[2]
        return base64.urlsafe_b64decode(encoded + "==")[:NONCE_BYTES]

    nonces = [
        nonce(OLD, TEXT, HERE),
        nonce(OLD, TEXT + "x", HERE),
        nonce(OLD, TEXT, HERE + "x"),
        nonce(NEW, TEXT, HERE),
    ]
    # What one side gives away, the other may not take: the same bytes, cut elsewhere.
    nonces += [nonce(OLD, "x" + TEXT, HERE), nonce(OLD, "ab", "c"), nonce(OLD, "b", "ca")]
    assert len(set(nonces)) == len(nonces)


@pytest.mark.parametrize(
    "context",
    [
        HERE.replace("acme", "other"),
        HERE.replace("https", "http"),
        HERE.replace("443", "8443"),
        HERE.replace("api", "evil"),
        HERE.replace("authorization", "x-echo"),
    ],
)
def test_another_tenant_place_or_header_opens_nothing(context: str) -> None:
    vault = KeyVault([OLD])
    sealed = vault.seal(TEXT, HERE)
    with pytest.raises(CannotOpen) as caught:
        vault.open(sealed, context)
    assert "'old'" in str(caught.value)
    assert caught.value.retryable


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_text_opens_nothing(place: int, change: int) -> None:
    vault = KeyVault([OLD])
    head, _, encoded = vault.seal(TEXT, HERE).rpartition(":")
    raw = bytearray(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    raw[place % len(raw)] ^= change
    with pytest.raises(CannotOpen):
        vault.open(f"{head}:{base64.urlsafe_b64encode(raw).decode().rstrip('=')}", HERE)


@pytest.mark.parametrize("rest", ["", "old", "old:", "old:AAAA", "old:%%%%", "old:" + "A" * 60, "old:a:b", ":"])
def test_what_is_no_sealed_text_is_refused_and_not_quoted(rest: str) -> None:
    with pytest.raises(CannotOpen) as caught:
        KeyVault([OLD]).open(SEALED + rest, HERE)
    assert "AAAA" not in str(caught.value)


def test_an_unknown_key_is_named_with_those_that_are_known() -> None:
    sealed = KeyVault([OLD]).seal(TEXT, HERE)
    with pytest.raises(CannotOpen, match=r"under the key 'old', which is not known \(known here: new\)"):
        KeyVault([NEW]).open(sealed, HERE)
    with pytest.raises(CannotOpen, match="no key is set here"):
        KeyVault().open(sealed, HERE)


def test_the_first_key_seals_and_all_open() -> None:
    before, after = KeyVault([OLD]).seal(TEXT, HERE), KeyVault([NEW, OLD])
    assert after.open(before, HERE) == TEXT
    assert (after.key_id, key_id_of(after.seal(TEXT, HERE))) == ("new", "new")
    assert KeyVault([NEW]).open(after.seal(after.open(before, HERE), HERE), HERE) == TEXT


def test_without_a_key_texts_stay_as_they_are() -> None:
    vault = KeyVault()
    assert (vault.seals, vault.key_id) == (False, "")
    assert vault.open(vault.seal(TEXT, HERE), HERE) == TEXT == vault.seal(TEXT, HERE)


def test_a_sealed_text_is_a_header_value_for_every_proxy() -> None:
    sealed = KeyVault([OLD]).seal("a" * 3_000, HERE)
    assert header_faults({"X-Any": sealed.removeprefix(SEALED)}) == []


def test_nothing_shows_a_key_or_a_text() -> None:
    vault = KeyVault([OLD, NEW])
    sealed = vault.seal(TEXT, HERE)
    vault.open(sealed, HERE)
    shown = repr(vault) + repr(OLD) + str(vars(vault))
    for secret in (TEXT, repr(OLD.key), OLD.key.hex(), base64.b64encode(OLD.key).decode()):
        assert secret not in shown


def test_what_is_kept_is_bounded() -> None:
    vault = KeyVault([OLD])
    for number in range(CACHE_COUNT + 100):
        vault.open(vault.seal(f"{number}", HERE), HERE)
    assert vault.kept_count == 2 * CACHE_COUNT


def test_it_is_aes_256_gcm_under_keys_by_hkdf() -> None:
    encrypts = HKDF(hashes.SHA256(), 32, None, b"tickwheel 1 encrypts").derive(OLD.key)
    assert derived(OLD.key, b"tickwheel 1 encrypts") == encrypts
    encoded = KeyVault([OLD]).seal(TEXT, HERE).rpartition(":")[2]
    raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    bound = f"old\x1e{HERE}".encode()
    assert AESGCM(encrypts).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound).decode() == TEXT


def test_who_seals_nothing_loads_no_cryptography() -> None:
    story = (
        "import sys; from tickwheel.adapters.vault.vault import KeyVault; from tickwheel.config.secret_keys import"
        " SecretKey; v = KeyVault([SecretKey('a', bytes(32))]); v.open('plain', ''); assert 'cryptography' not in"
        " sys.modules; v.seal('x', 'y'); assert 'cryptography' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", story], check=True)
