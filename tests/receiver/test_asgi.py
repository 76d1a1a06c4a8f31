"""The ASGI receiver: what it answers, and that nothing is read or done in vain."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tickwheel.domain.outcome import OutcomeClass, classify_http
from tickwheel.receiver import Answer, AsyncSqlGuard, Delivery, SqlGuard, WebhookReceiver

from .places import AsyncPsycopgPlace, PsycopgPlace, SqlitePlace
from .signing import BODY, NOW_S, OTHER_SECRET, SECRET, delivery, headers, run_id

LIMIT_BYTES = 1_000
Effect = Callable[[Delivery, Any], Answer | None]


class Exchange:
    """One request to an ASGI application; `messages` are what the server would hand over."""

    def __init__(
        self, sent: dict[str, str], *parts: bytes | None, method: str = "POST", announce: int | None = None
    ) -> None:
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        if announce is not None:
            pairs.append((b"content-length", str(announce).encode()))
        self.scope: dict[str, Any] = {"type": "http", "method": method, "headers": pairs}
        self._parts = list(parts)
        self.read_count = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        part = self._parts[self.read_count]
        self.read_count += 1
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": self.read_count < len(self._parts)}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]


async def exchange(app: WebhookReceiver, sent: dict[str, str], *parts: bytes | None, **named: Any) -> Exchange:
    made = Exchange(sent, *(parts or (BODY,)), **named)
    await app(made.scope, made.receive, made.send)
    return made


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def receiver(place: SqlitePlace, effect: Effect | None = None) -> WebhookReceiver:
    def plain(delivery: Delivery, connection: sqlite3.Connection) -> None:
        place.make_now(connection, delivery.run_id)

    return WebhookReceiver(
        effect or plain,
        secrets=[OTHER_SECRET, SECRET],
        guard=SqlGuard(),
        connect=place.connect,
        body_limit_bytes=LIMIT_BYTES,
        now_s=lambda: NOW_S,
    )


async def test_a_repeated_delivery_gets_the_recorded_answer(place: SqlitePlace) -> None:
    def effect(delivery: Delivery, connection: sqlite3.Connection) -> Answer:
        place.make_now(connection, delivery.run_id)
        return Answer(201, f"made by {delivery.fencing_token}".encode())

    app = receiver(place, effect)
    first = await exchange(app, headers(token=5))
    again = await exchange(app, headers(token=6), BODY[:3], BODY[3:], b"")
    assert (first.status, first.body, first.headers.get("idempotent-replayed")) == (201, b"made by 5", None)
    assert (again.status, again.body, again.headers["idempotent-replayed"]) == (201, b"made by 5", "true")
    assert again.headers["content-length"] == "9"
    assert place.effects(run_id(1)) == 1


async def test_coroutines_are_guarded_on_the_loop(blank_postgresql: str) -> None:
    place = AsyncPsycopgPlace(PsycopgPlace(blank_postgresql))

    async def effect(delivery: Delivery, connection: Any) -> Answer | None:
        await connection.execute("INSERT INTO effects (run_id) VALUES (%s)", (delivery.run_id,))
        return None if delivery.fencing_token > 5 else Answer(503, b"busy", retry_after_s=7)

    app = WebhookReceiver(
        effect, secrets=SECRET, guard=AsyncSqlGuard(), connect=place.connect, now_s=lambda: NOW_S
    )
    answers = [await exchange(app, headers(token=token)) for token in (5, 4, 6, 7)]
    assert [answer.status for answer in answers] == [503, 409, 200, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert place.effects(run_id(1)) == 1


async def test_an_answer_that_is_no_success_undoes_the_effect(place: SqlitePlace) -> None:
    answers = [Answer(503, b"not now", retry_after_s=30), Answer(422, b"never"), None]

    def effect(delivery: Delivery, connection: sqlite3.Connection) -> Answer | None:
        place.make_now(connection, delivery.run_id)
        return answers.pop(0)

    app = receiver(place, effect)
    told = [await exchange(app, headers(token=token)) for token in (5, 6, 7)]
    assert [(one.status, one.body) for one in told] == [(503, b"not now"), (422, b"never"), (200, b"")]
    assert told[0].headers["retry-after"] == "30"
    assert place.effects(run_id(1)) == 1


async def test_an_error_of_the_effect_reaches_the_server_and_undoes_it(place: SqlitePlace) -> None:
    def effect(delivery: Delivery, connection: sqlite3.Connection) -> None:
        place.make_now(connection, delivery.run_id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await exchange(receiver(place, effect), headers())
    assert (await exchange(receiver(place), headers(token=4))).status == 409
    assert place.effects(run_id(1)) == 0
    assert (await exchange(receiver(place), headers(token=6))).status == 200


async def test_refusals_are_answered_as_tickwheel_should_take_them(place: SqlitePlace) -> None:
    app = receiver(place)
    forged = headers() | {"webhook-signature": "v1,AAAA"}
    unsigned = {name: value for name, value in headers().items() if name != "webhook-signature"}
    expected = [
        (forged, 401, b"wrong_signature"),
        (unsigned, 400, b"missing_header"),
        (headers(sent_s=NOW_S - 301), 425, b"too_old"),
        (headers(sent_s=NOW_S + 301), 425, b"too_new"),
    ]
    for sent, status, reason in expected:
        answer = await exchange(app, sent)
        assert (answer.status, answer.body.partition(b":")[0]) == (status, reason)
    with place.connect() as connection, SqlGuard().once(connection, delivery(token=5)):
        busy = await exchange(app, headers(token=6))
    assert (busy.status, busy.headers["retry-after"]) == (425, "1")
    assert classify_http(busy.status) is OutcomeClass.RETRYABLE
    assert place.effects(run_id(1)) == 0


async def test_a_large_body_is_refused_as_soon_as_it_is_known(place: SqlitePlace) -> None:
    app = receiver(place)
    fits = b"x" * LIMIT_BYTES
    assert (await exchange(app, headers(1, body=fits), fits, announce=LIMIT_BYTES)).status == 200
    announced = await exchange(app, headers(2), BODY, announce=LIMIT_BYTES + 1)
    assert (announced.status, announced.read_count) == (413, 0)
    huge = await exchange(app, headers(2), BODY, announce=10**60)
    assert (huge.status, huge.read_count) == (413, 0)
    grown = await exchange(app, headers(2), fits, b"x", b"x", b"x")
    assert (grown.status, grown.read_count) == (413, 2)
    assert (await app.receive(headers(2), fits + b"x")).status == 413
    assert place.effects(run_id(2)) == 0


async def test_a_sender_that_goes_before_the_end_gets_nothing_done(place: SqlitePlace) -> None:
    gone = await exchange(receiver(place), headers(), BODY, None)
    assert (gone.status, place.effects(run_id(1))) == (0, 0)


async def test_a_head_request_has_an_effect_and_no_body(place: SqlitePlace) -> None:
    app = receiver(place, lambda delivery, connection: Answer(200, b"text"))
    answer = await exchange(app, headers(body=b""), b"", method="HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "4")


async def test_a_server_may_tell_of_its_start_and_stop(place: SqlitePlace) -> None:
    events, confirmed = ["lifespan.shutdown", "lifespan.startup"], []

    async def receive() -> Any:
        return {"type": events.pop()}

    async def send(message: Any) -> None:
        confirmed.append(message["type"])

    app = receiver(place)
    await app({"type": "lifespan"}, receive, send)
    assert confirmed == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(RuntimeError, match="websocket"):
        await app({"type": "websocket"}, receive, send)


def test_a_bad_secret_is_found_at_the_start(place: SqlitePlace) -> None:
    with pytest.raises(ValueError, match="signing secret"):
        WebhookReceiver(lambda _, __: None, secrets="whsec_x", guard=SqlGuard(), connect=place.connect)
