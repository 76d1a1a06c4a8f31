"""The signature against the specification's vector and against plain HMAC."""

import base64
import hashlib
import hmac

import pytest

from tickwheel.adapters.webhook.signature import parse_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_known_vector() -> None:
    body = b'{"test": 2432232314}'
    signature = sign([parse_secret(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_keys_give_two_signatures_in_their_order() -> None:
    keys = [b"a" * 32, b"b" * 32]
    expected = [
        "v1," + base64.b64encode(hmac.new(key, b"run_1.17.\x00\xff", hashlib.sha256).digest()).decode()
        for key in keys
    ]
    assert sign(keys, "run_1", 17, b"\x00\xff") == " ".join(expected)


@pytest.mark.parametrize(
    "text", ["whsec_", "whsec_short", "whsec_" + "A" * 200, "whsec_not base64 at all!!!!!!!!!!!!!", "ß" * 40]
)
def test_bad_secret_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_secret(text)
    assert text.removeprefix("whsec_")[:5] not in str(refusal.value) or text == "whsec_"


def test_prefix_is_optional() -> None:
    assert parse_secret(SECRET) == parse_secret(SECRET.removeprefix("whsec_"))
