"""Inputs that something once fell over. They are tried in every run, and mutations start from them."""

from base64 import b64encode, urlsafe_b64encode
from typing import Final, NamedTuple

import msgspec

_DEEP: Final = 30_000


class Seed(NamedTuple):
    """An input of the parser with this name, and what it broke."""

    parser: str
    data: bytes
    broke: str


def _keys(count: int, value: bytes = b"1") -> bytes:
    return b",".join(b'"k%d":%b' % (number, value) for number in range(count))


def _cursor(*parts: str | int) -> bytes:
    return urlsafe_b64encode(msgspec.json.encode(parts)).rstrip(b"=")


def _beat(value: bytes) -> bytes:
    kv = {"key": b64encode(b"tickwheel/c/members/n").decode(), "value": b64encode(value).decode()}
    return b"200\n" + msgspec.json.encode({"kvs": [kv]})


ONCE_FAILED: Final = (
    # Times and ids
    Seed("instant", b"9999-12-31T23:59:59.9999Z", "rounded up into the year 10000, which nothing can print"),
    Seed("run_id", b"run_3" + b"Z" * 38, "an instant before 1970 that stores took for one of far later"),
    Seed("cursor", _cursor("a", 5, "00 " * 10 + "00"), "an id with blanks, which made it shorter"),
    Seed("peer_address", b"h:" + b"1" * 5_000, "a port of more digits than Python turns into a number"),
    Seed("peer_address", b"[[:4", "a host that isn't read as it is printed"),
    # JSON
    Seed(
        "strict_json", b'"' + b'\\"[' * _DEEP, "a text without an end was looked for again at each of its quotes"
    ),
    Seed("strict_json", b'"' + b'\\"[' * _DEEP + b"\\", "the same, ending in half an escape"),
    Seed("job_request", b"{" + _keys(20_000) + b',"k0":1}', "one key twice among many: each was counted in all"),
    Seed("job_request", b"{" + _keys(5_000) + b"}", "a refusal of thousands of problems"),
    Seed("job_request", b"{" + b",".join([_keys(3_000)] * 2) + b"}", "a refusal of thousands of repeated keys"),
    Seed("job_patch", b"{" + _keys(5_000) + b"}", "a refusal of thousands of problems"),
    Seed("compact_request", b"{" + _keys(5_000) + b"}", "a refusal of thousands of problems"),
    # Addresses and their passwords
    Seed("coordinator_url", "etcd://u:s3cret@exa\u2100mple".encode(), "urllib's refusal quotes the password"),
    Seed("coordinator_url", b"etcd://u:1/s3cret@h", "the password was taken for a path"),
    Seed("coordinator_url", b"etcd://u:?s3cret@h", "the password was taken for an option, and told"),
    Seed("coordinator_url", b"etcd://:?s3cret@", "no host and no port before the password"),
    Seed("redis_url", "redis://u:s3cret@exa\u2100mple".encode(), "urllib's refusal quotes the password"),
    Seed("redis_url", b"redis://u:?s3cret@h", "the password was taken for an option, and told"),
    Seed("redis_url", b"redis://" + b"1" * 5_000 + b":x", "a refusal as long as the host"),
    Seed("redis_url", b"redis://x,[:" + b"1" * 5_000 + b"]", "a refusal as long as what is no IPv6 address"),
    Seed("coordinator_url", b"etcd://x,[:" + b"1" * 5_000 + b"]", "the same"),
    Seed("postgresql_url", b"//:a\x1fs3cret@h", "a password with a separator was sought as a blank, and told"),
    Seed("postgresql_url", b"//:@?s3cret@", "the driver took the password for an option, and told it"),
    Seed("postgresql_url", b"//:a s3cret@@", "the driver told the password up to the first @"),
    Seed("postgresql_url", b"//h\xff", "bytes that are no UTF-8 were a traceback"),
    Seed("postgresql_url", b"//h/%ff", "the same, percent-encoded"),
    Seed("redaction", b"postgresql://u:?s3cret@h", "a password with a question mark was shown"),
    Seed("redaction", b"postgresql://u:12?s3cret@h", "the same after digits, which look like a port"),
    Seed("redaction", b"postgresql://u:p@ss?s3cret@h", "the same after an @"),
    Seed("redaction", b"a://h?" + b"token" * 12_000, "names of options were searched again from each character"),
    Seed("server_url", b"http://u:s3cret@h", "the password was told"),
    Seed("server_url", b"http://u:s3cret@[h", "an error of urllib instead of ours"),
    Seed("server_url", b"http://h:99999", "an error of urllib instead of ours"),
    Seed("server_url", b"http://h:0", "port 0 was taken"),
    Seed("server_url", b"http://@h", "a user without a name was taken"),
    Seed("server_url", b"http://h/?", "an empty query was taken, and paths went behind it"),
    Seed("server_url", b"http://h/a\r\nX: y", "line breaks were taken"),
    # Settings
    Seed("settings_file", b"token = " + b"[" * _DEEP, "TOML that nests too deeply"),
    Seed("settings_file", b"port = " + b"9" * 5_000, "a number of more digits than Python turns into a text"),
    # Answers
    Seed("client_answer", b'200\n{"a":' + b"[" * _DEEP, "an answer that nests too deeply"),
    Seed("client_answer", b'422\n{"code":' + b"[" * _DEEP, "a problem that nests too deeply"),
    Seed("coordinator_answer", b'200\n{"a":' + b"[" * _DEEP, "an answer that nests too deeply"),
    Seed("coordinator_answer", b'200\n{"kvs":[{"key":"A"}]}', "a key that is no base64"),
    Seed("coordinator_answer", b'200\n{"kvs":[{"key":"","mod_revision":"x"}]}', "a revision that is no number"),
    Seed(
        "coordinator_answer", b'200\n{"header":{"revision":"x"},"succeeded":true,"ID":"1"}', "the same of a write"
    ),
    Seed("coordinator_answer", b'200\n[{"Key":"","CreateIndex":1,"ModifyIndex":1,"Value":"A"}]', "no base64"),
    Seed("coordinator_answer", _beat(b"1" * 5_000), "a beat's counter of more digits than Python reads"),
    Seed("node_note", b"\x81\xa1a" + b"\x91" * 3_000, "a note that nests too deeply took the hearers down"),
    Seed("job_lines", b'{"a":' + b"[" * _DEEP, "a line that nests too deeply"),
    Seed("job_file", b'{"a":' + b"[" * _DEEP, "a file that nests too deeply, and a payload"),
    Seed("amounts", b"nan", "not a number lies in every range"),
)
