"""What workers, servers and the processes of handlers say to each other, and the small bodies of the API."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from tickwheel.adapters.handlers.frames import Ended, Said, decode_answer, decode_call
from tickwheel.adapters.pull.wire import EndsAnswer, HeartbeatAnswer, LeaveAnswer, PollAnswer, run_id
from tickwheel.domain.errors import InvalidRequest, TickwheelError
from tickwheel.domain.ids import run_id_text
from tickwheel.domain.outcome import Outcome, OutcomeClass, ProgressNote
from tickwheel.interfaces.http.access_bodies import RotateRequest, TokenRequest
from tickwheel.interfaces.http.answers import PreviewRequest, RedriveRequest
from tickwheel.interfaces.http.secret_bodies import RotateSecretRequest, SecretRequest
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.wire import Refusal, problem
from tickwheel.interfaces.http.worker_bodies import (
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    LeaveRequest,
    PollRequest,
)
from tickwheel.interfaces.http.worker_views import beat_of, failures_of, keys_of, poll_of, success_of

from ..parser import Parser
from .names import JOB
from .request_bodies import ANYTHING, LARGEST_REFUSAL_BYTES, WORDS, told, written

_RUN = run_id_text(JOB, 1_790_000_000_000)
_BODIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "poll": (
        PollRequest,
        {
            "slots": {"total": 4, "free": 2, "busy": {"HIGH": 1}},
            "worker": {"name": "w", "id": "w1", "version": "1", "draining": False},
            "handlers": ["a", "b"],
            "webhooks": True,
            "wait_seconds": 0.5,
            "holding": [_RUN],
        },
    ),
    "heartbeat": (
        HeartbeatRequest,
        {"worker_id": "w1", "runs": [{"run_id": _RUN, "fencing_token": 7, "progress": 0.5, "note": "half"}]},
    ),
    "complete": (
        CompleteRequest,
        {
            "worker_id": "w1",
            "runs": [{"run_id": _RUN, "fencing_token": 7, "result": {"a": [1]}, "http_status": 200}],
        },
    ),
    "fail": (
        FailRequest,
        {
            "worker_id": "w1",
            "runs": [{"run_id": _RUN, "fencing_token": 7, "error": "x", "retry_after_seconds": 5}],
        },
    ),
    "leave": (LeaveRequest, {"worker_id": "w1", "holding": [_RUN]}),
    "redrive": (RedriveRequest, {"run_ids": [_RUN]}),
    "preview": (PreviewRequest, {"cron_expression": "0 2 * * *", "timezone": "UTC", "count": 3}),
    "token": (TokenRequest, {"role": "operator", "label": "l", "tenant_id": "t", "expires_in_seconds": 3_600}),
    "rotate": (RotateRequest, {"grace_seconds": 60}),
    "secret": (SecretRequest, {"name": "s", "value": "whsec_" + "QUFB" * 10}),
    "rotate_secret": (RotateSecretRequest, {"overlap_seconds": 60, "value": None}),
}
_DECODERS = {name: msgspec.json.Decoder(kind) for name, (kind, _) in _BODIES.items()}


def check_small_body(data: bytes) -> bool:
    """`<name of the body>`, a line break, and the body."""
    name, _, raw = data.partition(b"\n")
    decoder = _DECODERS.get(name.decode("latin-1"))
    if decoder is None:
        return False
    try:
        _convert(decode(decoder, raw))
    except InvalidRequest as error:
        told(error)
        return False
    except Refusal as refusal:
        assert len(problem(refusal.code, refusal.detail).body) < LARGEST_REFUSAL_BYTES
        return False
    return True


def _convert(request: Any) -> None:
    match request:
        case PollRequest():
            poll = poll_of(request)
            assert 0 <= poll.wait_ms <= 30_000
        case HeartbeatRequest():
            [beat_of(body) for body in request.runs]
        case CompleteRequest():
            for body in request.runs:
                _check_end(success_of(body).outcome)
        case FailRequest():
            for end in failures_of(request.runs):
                _check_end(end.outcome)
        case LeaveRequest():
            keys_of(request.holding)


def _check_end(outcome: Outcome) -> None:
    """What is kept of it can be read again by every strict decoder."""
    assert len(msgspec.json.encode(outcome)) < 200_000
    if outcome.result is not None:
        msgspec.json.decode(outcome.result)
    for text in (outcome.error, outcome.result_dropped):
        assert text is None or len(text.encode()) <= 2_048
    assert outcome.retry_after_ms is None or 0 <= outcome.retry_after_ms < 1 << 62


@st.composite
def _small_bodies(draw: st.DrawFn) -> bytes:
    name = draw(st.sampled_from(sorted(_BODIES)))
    return name.encode() + b"\n" + written(draw, _changed(draw, _BODIES[name][1]))


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """The same with something else in a place or two."""
    if draw(st.integers(0, 5)) == 0:
        return draw(ANYTHING)
    if isinstance(value, dict):
        kept = {
            name: _changed(draw, inner) if draw(st.integers(0, 2)) == 0 else inner for name, inner in value.items()
        }
        for name in draw(
            st.lists(st.sampled_from([*value, "x", "snooze_seconds", "unstarted", "timed_out", "all"]), max_size=1)
        ):
            kept[name] = draw(st.one_of(ANYTHING, st.booleans(), st.integers(0, 100)))
        return kept
    if isinstance(value, list):
        return [_changed(draw, inner) for inner in value] * draw(st.sampled_from([0, 1, 1, 2]))
    return draw(st.one_of(ANYTHING, st.just(value)))


_ANSWERS: tuple[Any, ...] = (PollAnswer, HeartbeatAnswer, EndsAnswer, LeaveAnswer)
_GIVEN: dict[str, Any] = {
    "worker_id": "w1",
    "session_seconds": 15.0,
    "lease_seconds": 30.0,
    "runs": [
        {
            "run_id": _RUN,
            "fencing_token": 7,
            "attempt": 1,
            "max_attempts": 4,
            "lane": "HIGH",
            "tenant_id": "default",
            "timeout_ms": 30_000,
            "target": {"endpoint": "https://a.example/", "method": "POST", "headers": {"a": "b"}},
            "payload": {"a": 1},
        },
        {"run_id": _RUN, "accepted": True, "status": "held", "reason": None, "fencing_token": 7, "attempt": 1}
        | {"max_attempts": 1, "lane": "LOW", "tenant_id": "t", "timeout_ms": 1, "handler": "h"},
    ],
    "cancelled": [_RUN],
    "lost": [],
    "session_open": True,
    "left": True,
}


def check_pull_answer(data: bytes) -> bool:
    """What a worker reads; a server of ours never says what it refuses."""
    taken = False
    for kind in _ANSWERS:
        try:
            answer = msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError:
            continue
        taken = True
        for run in answer.runs if isinstance(answer, PollAnswer) else ():
            try:
                given = run.assignment(5)
            except TickwheelError:
                continue
            assert run_id(given) == run.run_id
    return taken


@st.composite
def _pull_answers(draw: st.DrawFn) -> bytes:
    return written(draw, _changed(draw, _GIVEN))


_ENDED = Ended(Outcome(outcome_class=OutcomeClass.SUCCESS, result=b'{"a":1}', error="x", http_status=200), False)


def check_handler_frame(data: bytes) -> bool:
    """What a handler's process says; its parent ends it for anything else."""
    taken = False
    for read in (decode_answer, decode_call):
        try:
            message = read(data)
        except (msgspec.MsgspecError, RecursionError):
            continue
        taken = True
        assert read(msgspec.msgpack.encode(message)) == message
    return taken


@st.composite
def _frames(draw: st.DrawFn) -> bytes:
    said: Any = msgspec.to_builtins(
        draw(st.sampled_from([_ENDED, Said(ProgressNote(0.5, "half"))])), builtin_types=(bytes,)
    )
    try:
        raw = msgspec.msgpack.encode(_changed(draw, said))
    except OverflowError:  # no integer of MessagePack
        raw = b"\xcf" + b"\xff" * 8
    return raw[: draw(st.integers(0, len(raw)))] if draw(st.integers(0, 4)) == 0 else raw


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


PARSERS = (
    Parser(
        name="small_body",
        check=check_small_body,
        grammar=_small_bodies,
        examples=[name.encode() + b"\n" + _json(body) for name, (_, body) in _BODIES.items()],
        words=(*WORDS, b'"x":1,', b"`", b" - at `$", b"run_"),
        share=1.5,
    ),
    Parser(
        name="pull_answer",
        check=check_pull_answer,
        grammar=_pull_answers,
        examples=[_json(_GIVEN), _json({"runs": [{"run_id": _RUN, "accepted": True}]}), b'{"left":true}'],
        words=WORDS,
    ),
    Parser(
        name="handler_frame",
        check=check_handler_frame,
        grammar=_frames,
        examples=[msgspec.msgpack.encode(_ENDED), msgspec.msgpack.encode(Said(ProgressNote(0.5, "half")))],
        words=(
            b"\x80",
            b"\x90",
            b"\xc0",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xc6\xff\xff\xff\xff",
            b"\xa4type",
        ),
    ),
)
