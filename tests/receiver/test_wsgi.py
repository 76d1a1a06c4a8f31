"""The WSGI receiver, under the standard library's checker of the protocol."""

import io
import sqlite3
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from tickwheel.receiver import Answer, Delivery, SqlGuard, WsgiReceiver

from .places import SqlitePlace
from .signing import BODY, NOW_S, SECRET, headers, run_id

LIMIT_BYTES = 1_000


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def receiver(place: SqlitePlace, status: int = 200) -> WsgiReceiver:
    def effect(delivery: Delivery, connection: sqlite3.Connection) -> Answer:
        place.make_now(connection, delivery.run_id)
        return Answer(status, b"done", retry_after_s=None if status < 300 else 9)

    return WsgiReceiver(
        effect,
        secrets=SECRET,
        guard=SqlGuard(),
        connect=place.connect,
        body_limit_bytes=LIMIT_BYTES,
        now_s=lambda: NOW_S,
    )


def request(
    app: WsgiReceiver, sent: dict[str, str], body: bytes = BODY, *, length: str | None = "", **more: object
) -> tuple[str, dict[str, str], bytes]:
    """Status line, headers and body; `length` is announced, the body's by default."""
    environ: dict[str, Any] = {"wsgi.input": io.BytesIO(body), "REQUEST_METHOD": "POST", "QUERY_STRING": ""}
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in sent.items()}
    environ |= more
    environ.pop("HTTP_CONTENT_TYPE", None)
    if length is not None:
        environ["CONTENT_LENGTH"] = length or str(len(body))
    setup_testing_defaults(environ)
    told: list[Any] = []

    def start_response(status: str, lines: list[tuple[str, str]], exc_info: object = None) -> Any:
        told.extend((status, dict(lines)))
        return lambda data: None

    result: Any = validator(app)(environ, start_response)
    content = b"".join(result)
    result.close()
    return told[0], told[1], content


def test_the_effect_happens_once(place: SqlitePlace) -> None:
    app = receiver(place)
    status, first, body = request(app, headers(token=5))
    assert (status, body, first["content-length"]) == ("200 OK", b"done", "4")
    status, again, body = request(app, headers(token=6))
    assert (status, body, again["idempotent-replayed"]) == ("200 OK", b"done", "true")
    assert place.effects(run_id(1)) == 1


def test_what_is_no_success_is_undone(place: SqlitePlace) -> None:
    status, lines, _ = request(receiver(place, 503), headers())
    assert (status, lines["retry-after"]) == ("503 Service Unavailable", "9")
    assert request(receiver(place, 599), headers(token=6))[0] == "599 Unknown"
    assert place.effects(run_id(1)) == 0


def test_refusals(place: SqlitePlace) -> None:
    app = receiver(place)
    status, _, body = request(app, headers(), BODY + b" ")
    assert (status, body.partition(b":")[0]) == ("401 Unauthorized", b"wrong_signature")
    told: list[str] = []
    odd = {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "-1"}
    app(odd, lambda line, _: told.append(line))
    assert told == ["400 Bad Request"]
    assert request(app, headers(), length=str(LIMIT_BYTES + 1))[0].startswith("413 ")
    assert place.effects(run_id(1)) == 0


def test_a_body_without_a_length_is_read_to_its_end_where_the_server_ends_it(place: SqlitePlace) -> None:
    app = receiver(place)
    ends: Any = {"wsgi.input_terminated": True}
    assert request(app, headers(1), length=None, **ends)[0] == "200 OK"
    assert request(app, headers(2), length=None)[0] == "401 Unauthorized", "elsewhere it counts as empty"
    assert request(app, headers(3), b"x" * (LIMIT_BYTES + 1), length=None, **ends)[0].startswith("413 ")
    fits = b"x" * LIMIT_BYTES
    assert request(app, headers(4, body=fits), fits, length=None, **ends)[0] == "200 OK"


def test_a_body_that_ends_early_has_no_effect(place: SqlitePlace) -> None:
    assert request(receiver(place), headers(), BODY[:4], length=str(len(BODY)))[0] == "401 Unauthorized"


def test_a_view_may_ask_for_the_answer_itself(place: SqlitePlace) -> None:
    answer = receiver(place).receive(headers(), BODY)
    assert (answer.status, answer.body, place.effects(run_id(1))) == (200, b"done", 1)
