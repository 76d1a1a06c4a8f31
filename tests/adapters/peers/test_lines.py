import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.peers.address import Address, parse_address, print_address
from tickwheel.adapters.peers.lines import greeting, parse_greeting
from tickwheel.services.ownership.node_note import NodeNote, decode_note, encode_note, process_name, process_of


def test_a_greeting_names_its_process() -> None:
    assert parse_greeting(greeting("node-a-0011")) == "node-a-0011"


@given(st.text(), st.binary(min_size=8, max_size=8))
def test_every_process_name_survives_the_greeting(name: str, random: bytes) -> None:
    process = process_name(name, random)
    assert parse_greeting(greeting(process)) == process
    assert process_of(f"{process}.17") == (process, 17)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"tickwheel-peer 1 \n",
        b"tickwheel-peer 1 a b\n",
        b"tickwheel-peer 1 a",
        b"tickwheel-peer 2 a\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"tickwheel-peer 1 \xff\n",
        b"tickwheel-peer 1 a\x00\n",
        b"tickwheel-peer 1 " + b"a" * 256 + b"\n",
    ],
)
def test_what_is_no_greeting_names_nobody(line: bytes) -> None:
    assert parse_greeting(line) is None


@given(st.binary(max_size=300))
def test_noise_never_raises(noise: bytes) -> None:
    parse_greeting(noise)
    decode_note(noise)
    parse_address(noise.decode("latin-1"), "here")


def test_an_address_is_read_as_it_was_printed() -> None:
    assert parse_address(print_address("10.0.0.7", 4711, "here"), "elsewhere") == Address("10.0.0.7", 4711)
    assert parse_address(print_address("fd00::7", 4711, "here"), "elsewhere") == Address("fd00::7", 4711)


def test_a_loopback_address_means_nothing_on_another_machine() -> None:
    """Or a refusal by our own loopback would prove the death of a process elsewhere."""
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        printed = print_address(host, 4711, "here")
        assert parse_address(printed, "here") == Address(host, 4711)
        assert parse_address(printed, "there") is None
        assert parse_address(printed.partition("#")[0], "here") is None


@pytest.mark.parametrize(
    "text", ["", ":1", "host", "host:", "host:0", "host:65536", "host:x", "host:-1", "host:١"]
)
def test_what_is_no_address_leads_nowhere(text: str) -> None:
    assert parse_address(text, "here") is None


def test_a_note_is_read_as_it_was_written_and_noise_is_that_of_an_unfit_node() -> None:
    note = NodeNote(name="a", roles=("api",), unfit="clock", clock_difference_ms=-7)
    assert decode_note(encode_note(note)) == note
    assert not decode_note(b"noise").is_candidate
    assert not decode_note(b"\x80" * 5_000).is_candidate
