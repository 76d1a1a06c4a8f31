"""What others answer: Tickwheel's own servers to clients and workers, etcd and Consul, other nodes, a database."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import psycopg
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from tickwheel.adapters.consul.keys import ConsulKeys
from tickwheel.adapters.coordination.address import read_address
from tickwheel.adapters.coordination.coordinator import KeyCoordinator
from tickwheel.adapters.coordination.http_calls import Answer
from tickwheel.adapters.coordination.keys import Change, KeyStore
from tickwheel.adapters.etcd.gateway import text64
from tickwheel.adapters.etcd.keys import EtcdKeys
from tickwheel.adapters.postgresql.admission import visit
from tickwheel.adapters.pull.calls import _said as what_was_said
from tickwheel.domain.errors import ConfigError, StoreUnavailable, TickwheelError
from tickwheel.domain.requests.definition import REDACTED
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.errors import UnexpectedAnswer
from tickwheel.interfaces.client.flow import Reply, exchange
from tickwheel.services.ownership.node_note import LARGEST_NOTE_BYTES, NodeNote, decode_note, encode_note
from tickwheel.testing.virtual_clock import VirtualClock

from ..parser import Parser, encoded, to_text
from .addresses import SECRET, bare, is_hidden, secretive
from .http_requests import at_once
from .request_bodies import ANYTHING, WORDS, written

_CALLS: tuple[calls.Call[Any], ...] = (
    *(
        calls.create_from_json(b"{}"),
        calls.create_jobs(b"[]"),
        calls.get_job("j", None),
        calls.list_jobs(None, {}),
    ),
    *(calls.trigger_job("j", None), calls.list_runs("j", None, {}), calls.list_dead_letters(None, {})),
    *(calls.list_workers(None), calls.list_tokens(None), calls.list_secrets(None), calls.audit_log(None, {})),
    *(calls.health(), calls.redrive(None, None), calls.preview_schedule({})),
)
_PROBLEM = "application/problem+json"


def check_client_answer(data: bytes) -> bool:
    """`<status>`, a line break, and the body: to every call of the client."""
    first, _, body = data.partition(b"\n")
    status = int(first) if first.isdigit() and len(first) == 3 else 200
    kind = _PROBLEM if status >= 400 else "application/json"
    taken = False
    for call in _CALLS:
        flow = exchange(call)
        next(flow)
        try:
            flow.send(Reply(status, kind, "", False, body, 1, "http://h"))
        except StopIteration:
            taken = True
        except TickwheelError as error:
            assert str(error) or not isinstance(error, UnexpectedAnswer)
        else:
            flow.close()  # it would ask again
    what_was_said(body)
    return taken


_ANSWERED: tuple[dict[str, Any], ...] = (
    {"job_id": "j", "tenant_id": "t", "status": "SCHEDULED", "schedule_type": "CRON", "warnings": ["a"]}
    | {
        "next_run_time_epoch_ms": 5,
        "next_run_time_iso": "2026-10-22T14:30:00Z",
        "created_at": "2026-10-22T14:30:00Z",
    },
    {"jobs": [], "runs": [], "workers": [], "tokens": [], "secrets": [], "entries": [], "next_cursor": None},
    {"results": [{"job_id": None, "code": "c", "detail": "d", "errors": [{"field": "f", "message": "m"}]}]},
    {
        "code": "invalid_request",
        "title": "t",
        "detail": "d",
        "errors": [{"field": "f", "message": "m", "code": "c"}],
    },
    {"status": "ok", "redriven": 1, "refused": [], "next": [], "local": [], "notes": [], "warnings": []},
)


def _changed(draw: st.DrawFn, value: dict[str, Any]) -> dict[str, Any]:
    return value | {name: draw(ANYTHING) for name in draw(st.lists(st.sampled_from([*value, "x"]), max_size=2))}


@st.composite
def _client_answers(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([b"200", b"201", b"404", b"409", b"422", b"500", b"302", b"429"]))
    return status + b"\n" + written(draw, _changed(draw, draw(st.sampled_from(_ANSWERED))))


class _Server:
    """Says the same to every request."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send(self, *request: Any, **options: Any) -> Answer:
        return self._answer


_CHANGES: Sequence[Change] = (Change("locks/a", 0, b"n"), Change("members/n", 5, b"1 x", fleeting=True))


def check_coordinator_answer(data: bytes) -> bool:
    """`<status>`, a line break, and the body. A coordinator that talks nonsense is one that can't be reached."""
    first, _, body = data.partition(b"\n")
    status = int(first) if first.isdigit() and len(first) == 3 else 200
    server: Any = _Server(Answer(status, body))
    etcd = read_address(f"etcd://u:{SECRET}@h", scheme="etcd", port=2379, cluster="c")
    taken = False
    stores: tuple[KeyStore, ...] = (
        EtcdKeys(etcd, VirtualClock(), server),
        ConsulKeys(read_address("consul://h", scheme="consul", port=8500, cluster="c"), VirtualClock(), server),
    )
    for keys in stores:
        coordinator = KeyCoordinator(keys, VirtualClock())
        for ask in (partial(keys.swap, _CHANGES), coordinator.members, partial(coordinator.lock_holder, "a")):
            try:
                at_once(ask())
            except ConnectionError as error:
                assert len(str(error)) < 2_000
                assert SECRET not in str(error).partition(": status")[0]
                continue
            taken = True
    return taken


_KV = {
    "key": text64(b"tickwheel/c/members/n"),
    "value": text64(b"7 note"),
    "create_revision": "3",
    "mod_revision": "5",
}
_PAIR = {"Key": "tickwheel/c/members/n", "CreateIndex": 3, "ModifyIndex": 5, "Value": text64(b"7 note")}
_COORDINATED: tuple[Any, ...] = (
    {"kvs": [_KV], "header": {"revision": "7"}, "succeeded": True, "token": "t", "ID": "5", "TTL": "9"},
    [_PAIR, _PAIR | {"Key": "tickwheel/c/locks/a", "Value": text64(b"n")}],
    {"Results": [{"KV": _PAIR}], "Errors": None, "ID": "s"},
    {"Results": None, "Errors": [{"What": "invalid session"}]},
    {"code": 16, "error": "e", "message": "m"},
)


@st.composite
def _coordinator_answers(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([b"200", b"200", b"200", b"404", b"409", b"400", b"503"]))
    value = draw(st.sampled_from(_COORDINATED))
    if isinstance(value, dict):
        value = _changed(draw, value)
        if draw(st.booleans()) and isinstance(value.get("kvs"), list):
            value["kvs"] = [_changed(draw, _KV)]
    elif draw(st.booleans()):
        value = [_changed(draw, _PAIR), *value]
    return status + b"\n" + written(draw, value)


def check_node_note(data: bytes) -> bool:
    """What another node says of itself; nonsense must not take those down that hear it."""
    note = decode_note(data)
    if not note.is_candidate:
        return False
    again = encode_note(note)
    assert len(again) > LARGEST_NOTE_BYTES or decode_note(again) == note
    return True


_NOTE = encode_note(NodeNote(address="10.0.0.1:5", name="n", version="1"))


@st.composite
def _node_notes(draw: st.DrawFn) -> bytes:
    value = _changed(draw, msgspec.msgpack.decode(_NOTE))
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return b"\x81\xa4name\xa1\xff"


def check_postgresql_url(data: bytes) -> bool:
    """As the driver reads it: what it says of a wrong address, or a server of its user, shows no password."""
    url = f"postgresql:{to_text(data)}"

    def connect(text: str, **options: Any) -> Any:
        conninfo_to_dict(text)
        raise psycopg.OperationalError(f'connection failed: FATAL: password authentication failed ("{text}")')

    with patch("psycopg.connect", connect):
        try:
            with visit(url):
                raise AssertionError("there is no server")
        except ConfigError as error:
            taken, said = False, str(error)
        except StoreUnavailable as error:
            taken, said = True, str(error)
    assert not is_hidden(url) or SECRET not in said, "the password is shown"
    return taken


PARSERS = (
    Parser(
        name="client_answer",
        check=check_client_answer,
        grammar=_client_answers,
        examples=[b"200\n" + msgspec.json.encode(one) for one in _ANSWERED],
        words=(*WORDS, b"2026-10-22T14:30:00Z", REDACTED.encode()),
    ),
    Parser(
        name="coordinator_answer",
        check=check_coordinator_answer,
        grammar=_coordinator_answers,
        examples=[b"200\n" + msgspec.json.encode(one) for one in _COORDINATED],
        words=(*WORDS, b"=", b"-", b"==", text64(b"7 note").encode()),
    ),
    Parser(
        name="node_note",
        check=check_node_note,
        grammar=_node_notes,
        examples=(_NOTE, encode_note(NodeNote())),
        words=(b"\x81", b"\x91", b"\xc0", b"\xdd\xff\xff\xff\xff", b"\xa5roles", b"\xd9\xff"),
        share=0.5,
    ),
    Parser(
        name="postgresql_url",
        check=check_postgresql_url,
        grammar=lambda: bare(secretive("", "postgresql").map(lambda text: text.partition(":")[2])),
        examples=encoded([f"//u:{SECRET}@h:5432/db?sslmode=require", f"//:{SECRET}@/db", "//h1:1,h2:2/db?a=b"]),
        words=(b"@", b":", b"?", b"/", b"&", b"password=", b"%40", b"[", b"sslmode=", b"%"),
    ),
)
