"""Ids: layout, print, parse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.id_columns import job_id_texts, joined_job_ids, make_job_ids
from tickwheel.domain.ids import (
    ALPHABET,
    DAY_MS,
    HOME_HORIZON_MS,
    RANDOM_BYTES,
    IdError,
    created_ms_of,
    job_id_text,
    make_job_id,
    parse_job_id,
    parse_run_id,
    run_id_text,
    shard_of,
)

NOW_MS = 1_790_000_000_000
job_ids = st.binary(min_size=16, max_size=16)
instants = st.integers(0, 2**63 - 1)


def plain_base32(value: int, chars: int) -> str:
    return "".join(ALPHABET[value >> 5 * place & 31] for place in reversed(range(chars)))


@given(job_ids)
def test_job_id_is_printed_in_base32_and_read_back(job_id: bytes) -> None:
    text = job_id_text(job_id)
    assert text == "job_" + plain_base32(int.from_bytes(job_id, "big"), 26)
    assert parse_job_id(text) == job_id


@given(job_ids, instants)
def test_run_id_names_its_job_and_instant(job_id: bytes, scheduled_ms: int) -> None:
    text = run_id_text(job_id, scheduled_ms)
    assert text == "run_" + plain_base32(int.from_bytes(job_id, "big") << 64 | scheduled_ms, 39)
    assert parse_run_id(text) == (job_id, scheduled_ms)


@given(job_ids, instants, instants)
def test_printed_runs_of_a_job_sort_by_instant(job_id: bytes, one_ms: int, other_ms: int) -> None:
    assert (run_id_text(job_id, one_ms) < run_id_text(job_id, other_ms)) == (one_ms < other_ms)


def test_id_carries_creation_shard_and_due_day() -> None:
    job_id = make_job_id(created_ms=NOW_MS, shard=200, due_ms=NOW_MS + DAY_MS, random48=b"abcdef")
    assert len(job_id) == 16
    assert (created_ms_of(job_id), shard_of(job_id)) == (NOW_MS, 200)
    assert int.from_bytes(job_id[8:10], "big") == (NOW_MS + DAY_MS) // DAY_MS
    assert job_id[10:] == b"abcdef"


@pytest.mark.parametrize("due_ms", [None, NOW_MS + HOME_HORIZON_MS])
def test_recurring_and_far_jobs_have_no_home_day(due_ms: int | None) -> None:
    assert make_job_id(created_ms=NOW_MS, shard=1, due_ms=due_ms, random48=bytes(6))[8:10] == b"\0\0"


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_as_an_id_error(text: str) -> None:
    for parse in (parse_job_id, parse_run_id):
        try:
            parse(text)
        except IdError:
            continue
        assert text.startswith(("job_", "run_"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job_",
        "job_" + "0" * 25,
        "job_" + "0" * 27,
        "job_" + "Z" * 26,  # 130 bits
        "job_" + "0" * 25 + "I",
        "job_" + "0" * 25 + "é",
        "run_" + "0" * 26,
        "JOB_" + "0" * 26,
    ],
)
def test_what_is_no_job_id_is_refused(text: str) -> None:
    with pytest.raises(IdError):
        parse_job_id(text)


@given(st.lists(job_ids, max_size=40))
def test_ids_printed_in_columns_read_as_printed_one_by_one(ids: list[bytes]) -> None:
    assert job_id_texts(ids) == [job_id_text(job_id) for job_id in ids]
    if ids:
        assert joined_job_ids(ids, '","') == '","'.join(map(job_id_text, ids))
        assert joined_job_ids(ids, "") == "".join(map(job_id_text, ids))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 255),
            st.one_of(st.none(), st.integers(0, NOW_MS + 2 * HOME_HORIZON_MS)),
            st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES),
        ),
        max_size=20,
    )
)
def test_ids_made_in_columns_are_those_made_one_by_one(wanted: list[tuple[int, int | None, bytes]]) -> None:
    ids = make_job_ids(
        created_ms=NOW_MS,
        shards=[shard for shard, _, _ in wanted],
        due_ms=[due_ms for _, due_ms, _ in wanted],
        randomness=b"".join(random48 for _, _, random48 in wanted),
    )
    assert ids == [
        make_job_id(created_ms=NOW_MS, shard=shard, due_ms=due_ms, random48=random48)
        for shard, due_ms, random48 in wanted
    ]
