"""Tokens of an issuer: which are taken, and whose they are; and everything that tries to get past."""

from typing import Any

import jwt
import pytest

from tickwheel.adapters.jwt.key_sets import PAUSE_MS, KeySet
from tickwheel.adapters.jwt.settings import JwtSettings
from tickwheel.adapters.jwt.verifier import JwtVerifier
from tickwheel.domain.access import ROLE_SCOPES, Role
from tickwheel.ports.tokens import TokenRefused, Verified
from tickwheel.testing.virtual_clock import VirtualClock

from .issuer import (
    AUDIENCE,
    EC,
    ISSUER,
    NOW_S,
    OTHER_RSA,
    RSA,
    SECRET,
    forged,
    jwk,
    key_set,
    public_der,
    public_pem,
    token,
)

NOW_MS = NOW_S * 1000


class Source:
    """A key set that counts how often it is read, and that may be away."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.read_count = 0
        self.away = False

    def __call__(self, source: str) -> bytes:
        self.read_count += 1
        if self.away:
            raise OSError("nobody is there")
        return self.text


def verifier(source: Source | None = None, *, clock: VirtualClock | None = None, **changes: Any) -> JwtVerifier:
    clock = clock or VirtualClock()
    settings = JwtSettings(**{"audience": AUDIENCE, "issuer": ISSUER, **changes})
    return JwtVerifier(settings, clock, KeySet("set", clock, source) if source else None)


def of_issuer(**changes: Any) -> JwtVerifier:
    return verifier(Source(key_set()), **changes)


async def refusal(judge: JwtVerifier, text: str) -> str:
    with pytest.raises(TokenRefused) as caught:
        await judge.verify(text, NOW_MS)
    assert text not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_of_the_issuer_says_whose_it_is(algorithm: str) -> None:
    found: Verified = await of_issuer().verify(token(algorithm), NOW_MS)
    assert found.principal.name == "jwt:ann"
    assert found.principal.tenant_id == "acme"
    assert found.principal.scopes == ROLE_SCOPES[Role.SCHEDULER]
    assert NOW_MS < found.until_ms <= NOW_MS + 630_000


async def test_a_shared_secret_goes_with_hs256() -> None:
    judge = verifier(secret=SECRET)
    assert (await judge.verify(token("HS256"), NOW_MS)).principal.tenant_id == "acme"
    assert "fits no key" in await refusal(judge, token("HS256", key="another secret that is just as long as that"))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("form", [public_pem, public_der, lambda name: key_set(jwk(name))])
async def test_a_public_key_is_never_a_shared_secret(algorithm: str, form: Any) -> None:
    """The classic: the token says HS256 and is signed with what everybody knows."""
    for secret in (form(algorithm), form(algorithm).strip()):
        text = forged({"alg": "HS256", "typ": "JWT", "kid": algorithm}, secret)
        assert "not accepted" in await refusal(of_issuer(), text)
        both = verifier(Source(key_set()), secret=SECRET)
        assert "fits no key" in await refusal(both, text)


@pytest.mark.parametrize("name", ["none", "None", "nOnE", "", "HS512", "RS384", "PS256", "ES512", "ES256K"])
async def test_other_algorithms_are_none(name: str) -> None:
    for signature in (None, SECRET.encode()):
        text = forged({"alg": name, "kid": "RS256"}, signature)
        assert await refusal(verifier(Source(key_set()), secret=SECRET), text)


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "RS256", "crit": ["exp"]},
        {"alg": "RS256", "b64": False, "crit": ["b64"]},
        {"alg": ["RS256"]},
        {"alg": None},
        {},
        {"typ": "JWT"},
    ],
)
async def test_headers_that_are_not_understood_are_refused(header: dict[str, Any]) -> None:
    assert await refusal(of_issuer(), forged(header, SECRET.encode()))


async def test_keys_in_the_token_itself_are_not_looked_at() -> None:
    """`jwk`, `jku` and `x5u` let the sender choose who is trusted."""
    for extra in (
        {"jwk": jwk("RS256", OTHER_RSA)},
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example"},
    ):
        source = Source(key_set())
        assert "fits no key" in await refusal(verifier(source), token("RS256", key=OTHER_RSA, headers=extra))
        assert source.read_count == 1


@pytest.mark.parametrize(
    "key_id",
    [
        "../../dev/null",
        "/etc/passwd",
        "https://evil.example/k",
        "' OR 1=1",
        "\x00",
        "",
        " RS256",
        "rs256",
        "*",
        "ES256",
    ],
)
async def test_the_name_of_a_key_is_compared_and_nothing_else(key_id: str) -> None:
    """Elsewhere such names became paths, addresses or statements."""
    source = Source(key_set())
    judge = verifier(source)
    assert "fits no key" in await refusal(judge, token(key=OTHER_RSA, headers={"kid": key_id}))
    assert "fits no key" in await refusal(judge, token(headers={"kid": key_id}))
    assert source.read_count == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "no exp"),
        ({"exp": "soon"}, "time that is none"),
        ({"exp": True}, "time that is none"),
        ({"exp": float("inf")}, "time that is none"),
        ({"exp": 1 << 70}, "time that is none"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iat": NOW_S + 31}, "not valid yet"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "no aud"),
        ({"aud": ["other", "more"]}, "another audience"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": ISSUER[:-1]}, "another issuer"),
        ({"iss": ""}, "another issuer"),
        ({"aud": AUDIENCE[:-1]}, "another audience"),
        ({"aud": [[AUDIENCE]]}, "another audience"),
        ({"iss": None}, "no iss"),
        ({"sub": None}, "no subject"),
        ({"sub": ""}, "no subject"),
        ({"sub": "line\nbreak"}, "subject (claim sub) has an unprintable character (U+000A) at character 5"),
        ({"sub": "a\u202eb"}, "(U+202E) at character 2"),
        ({"sub": "  "}, "subject (claim sub) shows nothing"),
        ({"sub": "x" * 300}, "has 300 characters"),
        ({"tenant_id": ".."}, "tenant (claim tenant_id) means something else"),
        ({"tenant_id": "a\u202eb"}, "invisible character (U+202E)"),
        ({"tenant_id": " acme"}, "blank at an end"),
        ({"tenant_id": "*"}, "takes none of those"),
        ({"tenant_id": None}, "no tenant"),
        ({"tenant_id": ""}, "no tenant"),
        ({"tenant_id": ["acme"]}, "no tenant"),
        ({"tenant_id": "bad\x00name"}, "control character (U+0000)"),
        ({"role": None}, "no role"),
        ({"role": "king"}, "no role"),
        ({"role": []}, "no role"),
        ({"role": {"admin": True}}, "no role"),
    ],
)
async def test_claims_that_are_wrong_or_missing(changes: dict[str, Any], reason: str) -> None:
    assert reason in await refusal(of_issuer(), token(**changes))


async def test_the_clock_of_the_issuer_may_be_off_a_little() -> None:
    for text in (token(exp=NOW_S - 29), token(nbf=NOW_S + 29), token(iat=NOW_S + 29)):
        assert (await of_issuer().verify(text, NOW_MS)).principal.name == "jwt:ann"
    assert "expired" in await refusal(of_issuer(leeway_s=0), token(exp=NOW_S))


async def test_star_stands_for_all_tenants_where_that_is_set_and_roles_add_up() -> None:
    text = token(tenant_id="*", role=["reader", "worker", "unknown"])
    found = await of_issuer(all_tenants=True).verify(text, NOW_MS)
    assert found.principal.tenant_id is None
    assert found.principal.scopes == ROLE_SCOPES[Role.READER] | ROLE_SCOPES[Role.WORKER]


async def test_claims_may_lie_deeper_and_a_role_may_have_a_default() -> None:
    judge = of_issuer(tenant_claim="org.id", role_claim="realm_access.roles", default_role=Role.READER)
    deep = token(tenant_id=None, role=None, org={"id": "acme"}, realm_access={"roles": ["operator"]})
    assert (await judge.verify(deep, NOW_MS)).principal.scopes == ROLE_SCOPES[Role.OPERATOR]
    plain = token(tenant_id=None, role=None, org={"id": "acme"})
    assert (await judge.verify(plain, NOW_MS)).principal.scopes == ROLE_SCOPES[Role.READER]
    more: dict[str, Any] = {"realm_access.roles": "admin"}
    named = token(tenant_id=None, role=None, org={"id": "acme"}, **more)
    assert (await judge.verify(named, NOW_MS)).principal.scopes == ROLE_SCOPES[Role.ADMIN]


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "e30.e30.e30", "[" * 8_000 + "..", "\u00fc.b.c"])
async def test_rubbish_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        await of_issuer().verify(text, NOW_MS)


async def test_each_changed_character_is_noticed() -> None:
    good, judge = token("ES256"), of_issuer()
    for place in range(0, len(good), 7):
        other = "A" if good[place] != "A" else "B"
        changed = good[:place] + other + good[place + 1 :]
        if place == len(good) - 1:
            continue  # its last bits mean nothing
        with pytest.raises(TokenRefused):
            await judge.verify(changed, NOW_MS)


async def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_each_made_up_name() -> None:
    clock, source = VirtualClock(), Source(key_set(jwk("RS256")))
    judge = verifier(source, clock=clock)
    await judge.verify(token(), NOW_MS)
    assert source.read_count == 1
    source.text = key_set(jwk("RS256"), jwk("RS256", OTHER_RSA, kid="new"))
    renewed = token(key=OTHER_RSA, headers={"kid": "new"})
    assert "fits no key" in await refusal(judge, renewed)  # too soon after the last time
    await clock.advance(PAUSE_MS + 1)
    assert (await judge.verify(renewed, NOW_MS)).principal.name == "jwt:ann"
    assert source.read_count == 2
    for number in range(50):
        assert await refusal(judge, token(headers={"kid": f"made-up-{number}"}))
    assert source.read_count == 2


async def test_keys_stay_while_the_issuer_is_away_and_none_is_a_refusal() -> None:
    clock, source = VirtualClock(), Source(key_set())
    judge = verifier(source, clock=clock)
    await judge.verify(token(), NOW_MS)
    source.away = True
    await clock.advance(24 * 3_600_000)
    assert (await judge.verify(token(), NOW_MS)).principal.name == "jwt:ann"
    away = Source(key_set())
    away.away = True
    assert "can't be had" in await refusal(verifier(away), token())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"keys": 5}', b"\xff", b'{"keys": [' + b"[" * 5_000, b'{"keys": [5, null]}']
)
async def test_a_set_that_is_none(text: bytes) -> None:
    assert "can't be had" in await refusal(verifier(Source(text)), token())


async def test_keys_that_are_not_for_signatures_or_too_weak_are_left_out() -> None:
    weak = jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True)
    for entry in (
        jwk("RS256", use="enc"),
        jwk("RS256", alg="PS256"),
        jwk("ES256", EC, crv="P-521"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "RS256", "alg": "HS256"},
        {**weak, "kid": "RS256", "n": "AQAB"},
    ):
        assert await refusal(verifier(Source(key_set(entry))), token())
