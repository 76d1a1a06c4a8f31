"""A server that accepts the tokens of an issuer: keys in a file, or at an address that is asked when need be."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from click.testing import Result
from cryptography.hazmat.primitives.asymmetric import ed25519

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import ServerProcess

Call = Callable[..., Result]
AUDIENCE = ("--jwt-audience", "tickwheel")


class Issuer:
    """Signs tokens, and says at an address which keys are its own."""

    def __init__(self) -> None:
        self.keys = {"one": ed25519.Ed25519PrivateKey.generate()}
        issuer = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = issuer.key_set()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def key_set(self) -> bytes:
        kind: Any = jwt.algorithms.OKPAlgorithm
        keys = [{**kind.to_jwk(key.public_key(), as_dict=True), "kid": name} for name, key in self.keys.items()]
        return json.dumps({"keys": keys}).encode()

    def token(self, kid: str = "one", **claims: Any) -> str:
        now_s = int(time.time())
        body = {"sub": "ann", "aud": "tickwheel", "exp": now_s + 600, "tenant_id": "shop", "role": "scheduler"}
        return jwt.encode({**body, **claims}, self.keys[kid], algorithm="EdDSA", headers={"kid": kid})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    yield one
    one.close()


@pytest.mark.parametrize("from_address", [False, True])
def test_tokens_of_an_issuer_open_the_api_for_their_tenant(
    call: Call, issuer: Issuer, tmp_path: Path, from_address: bool
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.key_set())
    flags = ("--jwt-keys", issuer.url if from_address else str(keys), *AUDIENCE, "--jwt-all-tenants")
    with ServerProcess(*flags, folder=tmp_path, command="serve") as running:
        where = {"TICKWHEEL_URL": running.url}
        good = issuer.token()
        made = call("jobs", "create", "--in", "1h", "--endpoint", "https://example.com/h", "--json", **where)
        assert made.exit_code == ExitCode.UNAUTHORIZED
        where["TICKWHEEL_TOKEN"] = good
        made = call("jobs", "create", "--in", "1h", "--endpoint", "https://example.com/h", "--json", **where)
        assert json.loads(made.stdout)["tenant_id"] == "shop"
        for wrong, reason in (
            (issuer.token(aud="another"), "another audience"),
            (issuer.token(exp=int(time.time()) - 60), "expired"),
            (issuer.token(role=None), "no role"),
            (good[:-4] + "AAAA", "fits no key"),
        ):
            refused = call("jobs", "list", TICKWHEEL_URL=running.url, TICKWHEEL_TOKEN=wrong)
            assert refused.exit_code == ExitCode.UNAUTHORIZED
            assert reason in refused.stderr
        reader = issuer.token(role="reader", tenant_id="*")
        assert (
            call("jobs", "list", "--tenant", "shop", TICKWHEEL_URL=running.url, TICKWHEEL_TOKEN=reader).exit_code
            == 0
        )
        assert not any(good.split(".")[2] in line for line in running.lines)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--jwt-keys", "keys.json"), "jwt-audience: is missing"),
        (("--jwt-secret", "short", *AUDIENCE), "jwt-secret: needs at least 32"),
        (("--jwt-keys", "http://issuer.example/keys", *AUDIENCE), "jwt-keys: must be a file or an https"),
        (("--jwt-keys", "ftp://issuer.example/keys", *AUDIENCE), "jwt-keys: must be a file or an https"),
        (("--jwt-keys", "keys.json", *AUDIENCE, "--jwt-default-role", "king"), "jwt-default-role: must be one of"),
        (("--jwt-keys", "keys.json", *AUDIENCE, "--jwt-role-claim", " "), "jwt-role-claim: must name a claim"),
        (AUDIENCE, "jwt-audience: means nothing without"),
        (("--jwt-all-tenants",), "jwt-all-tenants: means nothing without"),
        (("--jwt-leeway-seconds", "60"), "jwt-leeway-seconds: means nothing without"),
    ],
)
def test_settings_that_are_wrong_are_told(call: Call, flags: tuple[str, ...], complaint: str) -> None:
    result = call("serve", "--port", "0", *flags)
    assert result.exit_code == ExitCode.USAGE
    assert complaint in result.stderr.replace("--", "").replace("_", "-")
    assert "short" not in result.stderr


def test_a_key_set_that_is_not_there_is_told_at_the_start(call: Call, tmp_path: Path) -> None:
    result = call("serve", "--port", "0", "--data", str(tmp_path), "--jwt-keys", "missing.json", *AUDIENCE)
    assert result.exit_code == ExitCode.USAGE
    assert "jwt-keys" in result.stderr.replace("--", "").replace("_", "-")
