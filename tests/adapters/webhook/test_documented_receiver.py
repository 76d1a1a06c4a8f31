"""The receiver's code in the reference accepts what the executor sends, and nothing else."""

import asyncio
import base64
import re
from pathlib import Path

from tickwheel.adapters.webhook.signature import parse_secret

from .harness import Bench, loopback, make_work
from .sink import Received, running_sink

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "webhooks.md"
SECRET, OTHER = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def test_documented_check_accepts_real_requests_only() -> None:
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    namespace: dict[str, object] = {}
    exec(block[1], namespace)
    is_genuine = namespace["is_genuine"]
    assert callable(is_genuine)

    async def scenario() -> Received:
        settings = loopback(signing_keys=(parse_secret(OTHER), parse_secret(SECRET)))
        async with running_sink() as sink, Bench(settings) as bench:
            await bench.run(make_work(1, sink.url("/status/200")))
            return sink.received[0]

    request = asyncio.run(scenario())
    assert is_genuine(SECRET, request.headers, request.body)
    assert is_genuine(OTHER, request.headers, request.body)
    assert not is_genuine(SECRET, request.headers, request.body + b" ")
    assert not is_genuine("whsec_" + base64.b64encode(b"x" * 32).decode(), request.headers, request.body)
    late = request.headers | {"webhook-timestamp": "1700000000"}
    assert not is_genuine(SECRET, late, request.body)
    for missing in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        rest = {name: value for name, value in request.headers.items() if name != missing}
        assert not is_genuine(SECRET, rest, request.body), f"a request without {missing} is refused, not an error"
