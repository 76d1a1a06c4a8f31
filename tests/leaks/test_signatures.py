"""What a server sends is verified by the specification's own library, whichever secret it is signed with."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ..interfaces.cli.server_process import ServerProcess, json_of, run_cli
from .receiver import Receiver, Request

pytestmark = pytest.mark.slow
FIRST, SECOND = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
"""The installation's, while they are rotated."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "tickwheel.toml"
    config.write_text(f'webhook_secret = ["{FIRST}", "{SECOND}"]\nallow_loopback = true\n')
    arguments = ("--config", str(config), "--data", str(tmp_path / "data"), "--no-auth")
    with ServerProcess(*arguments, folder=tmp_path, command="serve") as running:
        yield running


def delivered(server: ServerProcess, receiver: Receiver, **target: Any) -> Request:
    """The request of a job of the tenant `shop` that is due at once."""
    called: Any = {"endpoint": receiver.url("/status/200"), **target}
    job = server.client.schedule(target=called, payload={"a": [1, "ü"]}, tenant_id="shop")
    return receiver.wait_for(job.job_id)


def fits(request: Request, *secrets: str) -> list[bool]:
    """Whether the library takes the request, by each of the secrets."""
    return [_fits(request, secret) for secret in secrets]


def _fits(request: Request, secret: str) -> bool:
    try:
        return bool(Webhook(secret).verify(request.body, request.headers) == {"a": [1, "ü"]})
    except WebhookVerificationError:
        return False


def secret(server: ServerProcess, verb: str, name: str, *more: str) -> str:
    value: str = json_of(run_cli("secrets", verb, name, "--tenant", "shop", *more, "--json", url=server.url))[
        "value"
    ]
    return value


def test_each_secret_signs_what_is_its_own(server: ServerProcess, receiver: Receiver) -> None:
    plain = delivered(server, receiver)
    assert fits(plain, FIRST, SECOND) == [True, True]
    tenants = secret(server, "create", "default")
    request = delivered(server, receiver)
    assert fits(request, tenants, FIRST, SECOND) == [True, False, False]
    billing = secret(server, "create", "billing")
    request = delivered(server, receiver, signing_secret="billing")
    assert fits(request, billing, tenants, FIRST) == [True, False, False]
    changed = Request(request.path, request.headers, request.body + b" ")
    assert fits(changed, billing) == [False]


def test_old_and_new_value_verify_while_a_secret_is_rotated(server: ServerProcess, receiver: Receiver) -> None:
    old = secret(server, "create", "billing")
    new = secret(server, "rotate", "billing")
    request = delivered(server, receiver, signing_secret="billing")
    assert fits(request, old, new) == [True, True]
    assert len(request.headers["webhook-signature"].split()) == 2
    newest = secret(server, "rotate", "billing", "--overlap", "0")
    request = delivered(server, receiver, signing_secret="billing")
    assert fits(request, old, new, newest) == [False, False, True]
