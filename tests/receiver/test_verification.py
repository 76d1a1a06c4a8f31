"""What is proved of a request before anything happens, and that nothing else than a refusal comes of the rest."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from tickwheel.adapters.webhook.signature import sign
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.outcome import OutcomeClass, classify_http
from tickwheel.domain.signing_key import parse_secret
from tickwheel.receiver import Delivery, Reason, RefusedDelivery, UnverifiedDelivery, verify
from tickwheel.receiver.delivery import Headers

from .signing import BODY, NOW_S, OTHER_SECRET, SCHEDULED_MS, SECRET, headers, instant, run_id

SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")


def refusal(sent: Headers, body: bytes = BODY, *, now_s: float = NOW_S) -> UnverifiedDelivery:
    with pytest.raises(UnverifiedDelivery) as refused:
        verify(sent, body, SECRET, now_s=now_s)
    return refused.value


def test_what_tickwheel_sends_is_read_completely() -> None:
    sent = headers(3, (7 << 32) | 9, tenant_id="Müller & 50 %", idempotency_key="order ☃")
    assert verify(sent, BODY, SECRET, now_s=NOW_S) == Delivery(
        run_id=run_id(3),
        job_id=job_id_text((3).to_bytes(16, "big")),
        tenant_id="Müller & 50 %",
        fencing_token=(7 << 32) | 9,
        attempt=2,
        max_attempts=4,
        scheduled_at=datetime(2026, 10, 3, 4, 0, 0, 123_000, UTC),
        sent_at=instant(NOW_S),
        idempotency_key="order ☃",
        body=BODY,
    )


@pytest.mark.parametrize(
    "form",
    [
        dict,
        lambda sent: {name.title(): value for name, value in sent.items()},
        lambda sent: list(sent.items()),
        lambda sent: [(name.encode(), value.encode()) for name, value in sent.items()],
        lambda sent: iter(sent.items()),
    ],
)
def test_headers_come_in_any_form(form: object) -> None:
    assert callable(form)
    assert verify(form(headers()), BODY, SECRET, now_s=NOW_S).run_id == run_id(1)


def test_any_secret_and_any_signature_may_fit() -> None:
    both = headers(secrets=(OTHER_SECRET, SECRET))
    for secrets in (SECRET, [SECRET], [OTHER_SECRET], ["whsec_" + "A" * 32, SECRET]):
        assert verify(both, BODY, secrets, now_s=NOW_S).fencing_token == 5
    only = headers(secrets=(OTHER_SECRET,))
    assert verify(only, BODY, [SECRET, OTHER_SECRET], now_s=NOW_S).fencing_token == 5
    assert refusal(only).reason is Reason.WRONG_SIGNATURE
    with_others = both | {"webhook-signature": f"v1a,AAAA {both['webhook-signature']} v2"}
    assert verify(with_others, BODY, SECRET, now_s=NOW_S).fencing_token == 5


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_AAAA", "whsec_!" + "A" * 40, "whsec_" + "A" * 100, "ß" * 40]
)
def test_a_bad_secret_is_an_error_of_the_program_that_does_not_quote_it(secret: str) -> None:
    with pytest.raises(ValueError) as error:
        verify(headers(), BODY, secret, now_s=NOW_S)
    assert secret.removeprefix("whsec_")[:4] not in str(error.value) or len(secret) < 7
    with pytest.raises(ValueError, match="no signing secret"):
        verify(headers(), BODY, [], now_s=NOW_S)


@pytest.mark.parametrize("name", [*SIGNED, "x-fencing-token", "x-attempt", "x-max-attempts", "x-tenant-id"])
def test_missing_empty_and_repeated_headers_are_refused(name: str) -> None:
    sent = headers()
    assert refusal({k: v for k, v in sent.items() if k != name}).reason is Reason.MISSING_HEADER
    assert refusal(sent | {name: ""}).reason is Reason.MISSING_HEADER
    again = [*sent.items(), (name.upper(), sent[name])]
    assert refusal(again).reason is Reason.REPEATED_HEADER


def test_time_is_bounded_on_both_sides() -> None:
    for now_s in (NOW_S - 300, NOW_S + 300):
        assert verify(headers(), BODY, SECRET, now_s=now_s).attempt == 2
    assert refusal(headers(), now_s=NOW_S + 300.5).reason is Reason.TOO_OLD
    assert refusal(headers(), now_s=NOW_S - 300.5).reason is Reason.TOO_NEW
    with pytest.raises(UnverifiedDelivery):
        verify(headers(), BODY, SECRET, now_s=NOW_S + 11, tolerance_s=10)
    with pytest.raises(UnverifiedDelivery):
        verify(headers(sent_s=1_600_000_000), BODY, SECRET)  # by the machine's clock


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-job-id", job_id_text((2).to_bytes(16, "big"))),
        ("x-scheduled-at", "2026-10-03T04:00:00.124Z"),
    ],
)
def test_an_unsigned_header_cannot_contradict_the_signed_run_id(name: str, value: str) -> None:
    assert refusal(headers() | {name: value}).reason is Reason.CONTRADICTION
    rest = {key: text for key, text in headers().items() if key != name}
    assert verify(rest, BODY, SECRET, now_s=NOW_S) == verify(headers(), BODY, SECRET, now_s=NOW_S)


@pytest.mark.parametrize("value", ["-1", "+1", "1.0", "0x1", " 1", "1e3", "١", str(2**53), "9" * 5000])
@pytest.mark.parametrize("name", ["x-fencing-token", "x-attempt", "x-max-attempts", "webhook-timestamp"])
def test_numbers_are_plain_decimal(name: str, value: str) -> None:
    assert refusal(headers() | {name: value}).reason is Reason.MALFORMED_HEADER


@pytest.mark.parametrize(
    "message_id",
    [
        *("msg_1", "run_", "run_" + "0" * 38, "run_" + "0" * 40, "run_" + "Z" * 39, "run_" + "0" * 38 + "I"),
        run_id_text(bytes(16), 2**62),  # an instant beyond the calendar
    ],
)
def test_a_signed_id_that_names_no_run_is_refused(message_id: str) -> None:
    signature = sign([parse_secret(SECRET)], message_id, NOW_S, BODY)
    sent = headers() | {"webhook-id": message_id, "webhook-signature": signature}
    assert refusal(sent).reason is Reason.MALFORMED_HEADER


def test_free_text_that_does_not_decode_is_refused() -> None:
    for name in ("x-tenant-id", "x-idempotency-key"):
        assert refusal(headers() | {name: "%FF"}).reason is Reason.MALFORMED_HEADER


def test_what_is_refused_says_so_without_the_secret_or_the_body() -> None:
    told = str(refusal(headers(secrets=(OTHER_SECRET,))))
    assert SECRET[6:] not in told
    assert "amount" not in told + repr(verify(headers(), BODY, SECRET, now_s=NOW_S))


def test_statuses_mean_to_tickwheel_what_they_should() -> None:
    retried = {Reason.TOO_OLD, Reason.TOO_NEW, Reason.IN_PROGRESS}
    for reason in Reason:
        outcome = classify_http(RefusedDelivery(reason, "").status)
        assert outcome is (OutcomeClass.RETRYABLE if reason in retried else OutcomeClass.PERMANENT), reason


@given(st.binary(max_size=40).map(lambda data: json.dumps(data.hex()).encode()), st.integers(1, 10**6))
def test_the_public_library_and_this_one_agree(body: bytes, number: int) -> None:
    library = Webhook(SECRET)
    sent_at = datetime.now(UTC).replace(microsecond=0)
    sent_s = int(sent_at.timestamp())
    ours = headers(number, body=body, sent_s=sent_s, secrets=(OTHER_SECRET, SECRET))
    assert library.verify(body, ours) == json.loads(body)
    theirs = ours | {"webhook-signature": library.sign(run_id(number), sent_at, body.decode())}
    assert verify(theirs, body, SECRET).run_id == run_id(number)


@given(st.data())
def test_a_single_changed_byte_is_refused(data: st.DataObject) -> None:
    sent = headers()
    place = data.draw(st.sampled_from([*SIGNED, "body"]))
    original = BODY if place == "body" else sent[place].encode()
    position = data.draw(st.integers(0, len(original) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value != original[position]))
    changed = original[:position] + bytes([other]) + original[position + 1 :]
    pairs = [(k.encode(), v.encode()) for k, v in sent.items() if k != place]
    if place == "body":
        refusal(pairs, changed)
    else:
        refusal([*pairs, (place.encode(), changed)])


@given(st.data())
def test_bytes_that_are_cut_off_or_put_in_are_refused(data: st.DataObject) -> None:
    sent = headers()
    place = data.draw(st.sampled_from(SIGNED))
    position = data.draw(st.integers(0, len(sent[place])))
    more = data.draw(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=3))
    cut = data.draw(st.integers(0, 3))
    changed = sent[place][:position] + more + sent[place][position + cut :]
    if changed != sent[place]:
        refusal(sent | {place: changed})


NAMES = [name for name in headers(idempotency_key="k") if name.startswith(("webhook", "x-"))]


@given(st.lists(st.tuples(st.sampled_from(NAMES).map(str.encode) | st.binary(), st.binary())), st.binary())
def test_any_header_bytes_end_in_a_refusal(pairs: list[tuple[bytes, bytes]], body: bytes) -> None:
    refusal(pairs, body)


@given(st.dictionaries(st.sampled_from(NAMES), st.text() | st.binary().map(lambda b: b.decode("latin-1"))))
def test_any_header_text_on_a_signed_request_is_read_or_refused(changes: dict[str, str]) -> None:
    sent = headers(idempotency_key="k") | changes
    try:
        read = verify(sent, BODY, SECRET, now_s=NOW_S)
    except RefusedDelivery:
        return
    assert read.run_id == run_id(1), "what is signed cannot be changed"
    assert (read.scheduled_at.timestamp(), read.body) == (SCHEDULED_MS / 1000, BODY)


@given(st.lists(st.sampled_from(["v1", "v1a", ",", " ", "AAAA", "=", base64.b64encode(bytes(32)).decode()])))
def test_odd_signature_headers_are_refused(parts: Iterable[str]) -> None:
    assert refusal(headers() | {"webhook-signature": "x" + "".join(parts)}).reason is Reason.WRONG_SIGNATURE
