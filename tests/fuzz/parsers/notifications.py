"""Rules of notification, addresses of e-mail and of mail servers."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from tickwheel.adapters.smtp.courier import compose_mail
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.mail_server import read_mail_server
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.messages import compose_trial
from tickwheel.domain.notifications.rule import address_fault, read_rule
from tickwheel.interfaces.http.small_bodies import decode_tree
from tickwheel.interfaces.http.wire import Refusal

from ..parser import Parser, encoded, to_bytes, to_text
from ..strategies import DIGITS, joined, pick
from .request_bodies import ANYTHING, told, written


def check_rule(data: bytes) -> bool:
    try:
        rule = read_rule(decode_tree(data))
    except InvalidRequest as error:
        told(error)
        return False
    except Refusal as refusal:
        assert len(refusal.detail) < 2_000
        return False
    stored = msgspec.json.encode(rule)
    assert msgspec.json.decode(stored, type=type(rule)) == rule
    assert rule.events
    assert (rule.webhook is None) is bool(rule.email)
    rule.takes_job("name", ("tag",))
    return True


_RULE: dict[str, Any] = {
    "events": ["run.dead_lettered", "job.failing"],
    "to": {"webhook": {"endpoint": "https://ops.example/hook", "signing_secret": "billing"}},
    "job_name_prefix": "bill-",
    "tag": "money",
    "failures": 5,
    "quiet_seconds": 60,
}
_MAIL: dict[str, Any] = {"events": ["schedule.exhausted"], "to": {"email": ["ops@example.com", "b@example.org"]}}
_MEMBERS = (*_RULE, "webhook", "email", "endpoint", "signing_secret", "x")


@st.composite
def _rules(draw: st.DrawFn) -> bytes:
    rule: dict[str, Any] = dict(draw(st.sampled_from([_RULE, _MAIL])))
    rule["to"] = dict(rule["to"])
    for holder in (rule, rule["to"], rule["to"].get("webhook", {})):
        for name in draw(st.lists(st.sampled_from(_MEMBERS), max_size=1)):
            holder = dict(holder)
            rule[name] = draw(st.one_of(st.integers(-1, 2**40), st.floats(), ANYTHING))
    return written(draw, rule)


def check_address(data: bytes) -> bool:
    """What is taken can stand in a header as it is, and is one recipient."""
    address = to_text(data)
    if address_fault(address) is not None:
        return False
    mail = compose_mail("jobs@example.com", (address,), compose_trial("t", "ops", 0, ""), 0)
    assert mail["To"] == address
    [header] = [line for line in mail.as_bytes().split(b"\r\n") if line.lower().startswith(b"to:")]
    assert b"," not in header
    assert not {*address} & set(' ,;:<>()[]"\\\r\n\0')
    return True


def check_mail_server(data: bytes) -> bool:
    try:
        server = read_mail_server(to_text(data))
    except ValueError as error:
        assert type(error) is ValueError
        assert len(str(error)) < 300
        return False
    assert server.host
    assert 0 < server.port < 65_536
    assert bool(server.user) is bool(server.password)
    return True


PARSERS = (
    Parser(
        name="notification_rule",
        check=check_rule,
        grammar=_rules,
        examples=[msgspec.json.encode(_RULE), msgspec.json.encode(_MAIL)],
        words=encoded([*_MEMBERS, *Kind]),
    ),
    Parser(
        name="mail_address",
        check=check_address,
        grammar=lambda: joined(
            pick("ops", "a.b", "a+b", "o'neil", "", ".", '"a b"', "a\r\nBcc: b"),
            pick("@", "@@", " @", ""),
            pick(
                "example.com", "a-b.example", "localhost", "[127.0.0.1]", "-a.example", "b..example", "ä.example"
            ),
        ).map(to_bytes),
        examples=encoded(["ops@example.com", "a.b+c@sub.example.co"]),
        words=encoded(["@", ".", ",", "\r\n", "<", ">", '"']),
    ),
    Parser(
        name="mail_server",
        check=check_mail_server,
        grammar=lambda: joined(
            pick("smtp://", "smtps://", "http://", "smtp:", ""),
            pick("", "u:p@", "u:p%40@", "u@", ":p@", "u:p@@", "u:p\t@"),
            pick("mail.example.com", "[::1]", "127.0.0.1", "", "[::1"),
            st.one_of(pick("", ":587", ":0", ":99999"), DIGITS.map(lambda digits: f":{digits}")),
            pick("", "/", "/x", "?a=b", "#x"),
        ).map(to_bytes),
        examples=encoded(
            ["smtp://mail.example.com", "smtps://user:pass@mail.example.com:465", "smtp://[::1]:2525"]
        ),
        words=encoded(["smtp://", "smtps://", "@", ":", "[", "]"]),
    ),
)
