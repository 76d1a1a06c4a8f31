"""Ids, cursors, greetings of peers and places: short texts that print and parse."""

from hypothesis import strategies as st

from tickwheel.adapters.peers.address import parse_address, print_address
from tickwheel.adapters.peers.lines import greeting, parse_greeting
from tickwheel.domain.errors import BadCursor
from tickwheel.domain.ids import ALPHABET, IdError, job_id_text, parse_job_id, parse_run_id, run_id_text
from tickwheel.ports.cursors import read_cursor, write_cursor

from ..parser import Parser, encoded, to_bytes, to_text
from ..strategies import DIGITS, joined, maybe, near, pick

JOB = bytes.fromhex("0199e0c3b4007a00004d1122334455ff")
_ID_CHARACTERS = st.text(st.sampled_from(ALPHABET), min_size=24, max_size=40)


def check_job_id(data: bytes) -> bool:
    text = to_text(data)
    try:
        raw = parse_job_id(text)
    except IdError:
        return False
    assert len(raw) == 16
    assert job_id_text(raw) == text
    return True


def check_run_id(data: bytes) -> bool:
    text = to_text(data)
    try:
        job_id, scheduled_ms = parse_run_id(text)
    except IdError:
        return False
    assert len(job_id) == 16
    assert 0 <= scheduled_ms < 1 << 63
    assert run_id_text(job_id, scheduled_ms) == text
    return True


_CURSORS: dict[str, tuple[type, ...]] = {"a": (int, bytes), "runs": (int,), "dead": (int, bytes, int)}


def check_cursor(data: bytes) -> bool:
    text, taken = to_text(data), False
    for kind, types in _CURSORS.items():
        try:
            key = read_cursor(kind, text, types)
        except BadCursor:
            continue
        taken = True
        assert all(type(part) is wanted for part, wanted in zip(key, types, strict=True))
        assert all(len(part) == 16 for part in key if isinstance(part, bytes))
        assert all(-(1 << 63) <= part < 1 << 63 for part in key if isinstance(part, int))
        assert read_cursor(kind, write_cursor(kind, *key), types) == key
    return taken


def _cursors() -> st.SearchStrategy[str]:
    number, job = st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16)
    return st.one_of(
        st.builds(lambda n, j: write_cursor("a", n, j), number, job),
        st.builds(lambda n: write_cursor("runs", n), number),
        st.builds(lambda n, j, m: write_cursor("dead", n, j, m), number, job, number),
        st.builds(lambda n: write_cursor("runs", n), st.integers(-(2**80), 2**80)),
        st.builds(lambda j: write_cursor("a", 1, j), st.binary(max_size=20)),
        st.text(max_size=40).map(lambda text: write_cursor("a", 1) + text),
    )


def check_greeting(data: bytes) -> bool:
    process = parse_greeting(data)
    if process is None:
        return False
    assert greeting(process) == data
    return True


_NETWORK = "boot-4026531840"


def check_peer_address(data: bytes) -> bool:
    address = parse_address(to_text(data), _NETWORK)
    if address is None:
        return False
    assert address.host
    assert 0 < address.port < 65_536
    assert parse_address(print_address(*address, _NETWORK), _NETWORK) == address
    return True


_HOSTS = pick("10.0.0.7", "[fd00::7]", "127.0.0.1", "localhost", "[::1]", "node-1.example", "::1", "fe80::1%eth0")

PARSERS = (
    Parser(
        name="job_id",
        check=check_job_id,
        grammar=lambda: near(
            joined("job_", _ID_CHARACTERS) | st.binary(min_size=16, max_size=16).map(job_id_text)
        ),
        examples=encoded([job_id_text(JOB), "job_" + "0" * 26, "job_7" + "Z" * 25]),
        words=(b"job_", b"run_", b"I", b"L", b"O", b"U", b"o"),
    ),
    Parser(
        name="run_id",
        check=check_run_id,
        grammar=lambda: near(
            joined("run_", _ID_CHARACTERS)
            | joined(
                "run_", pick("0", "1", "2", "3", "4"), st.text(st.sampled_from(ALPHABET), min_size=38, max_size=38)
            )
            | st.builds(run_id_text, st.binary(min_size=16, max_size=16), st.integers(0, 2**63 - 1))
        ),
        examples=encoded([run_id_text(JOB, 1_790_000_000_000), "run_" + "0" * 39, "run_3" + "Z" * 38]),
        words=(b"job_", b"run_", b"Z", b"O"),
    ),
    Parser(
        name="cursor",
        check=check_cursor,
        grammar=lambda: near(_cursors()),
        examples=encoded([write_cursor("a", 5, JOB), write_cursor("runs", 5), write_cursor("dead", 5, JOB, 7)]),
        words=(b"W", b"==", b"-", b"_", b"/", b"+"),
    ),
    Parser(
        name="peer_greeting",
        check=check_greeting,
        grammar=lambda: near(
            joined("tickwheel-peer ", pick("1", "2", ""), " ", st.text(max_size=300), pick("\n", ""))
        ),
        examples=[greeting("0199e0c3-node"), b"tickwheel-peer 1 x\n"],
        words=(b"tickwheel-peer 1 ", b"\n", b" "),
    ),
    Parser(
        name="peer_address",
        check=check_peer_address,
        grammar=lambda: near(joined(_HOSTS, ":", DIGITS, maybe(joined("#", pick(_NETWORK, "other", ""))))),
        examples=encoded(["10.0.0.7:4711", "[fd00::7]:4711", f"127.0.0.1:4711#{_NETWORK}"]),
        words=(b":", b"#", b"[", b"]", to_bytes("\u0664"), b"65535", b"65536"),
    ),
)
