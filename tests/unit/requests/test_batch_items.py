"""A batch is cut into its items also where one of them is odd."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.batch_items import cut_array
from tickwheel.domain.requests.request import split_batch

TEXTS = st.text(alphabet=st.sampled_from('a"\\,[]{}\n é😀'))
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12
)


@given(st.lists(VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_the_cuts_are_where_a_decoder_sees_them(values: list[Any], plain: bool, indent: int | None) -> None:
    raw = json.dumps(values, ensure_ascii=plain, indent=indent).encode()
    decoded = msgspec.json.decode(raw, type=list[msgspec.Raw])
    assert [item.strip() for item in cut_array(raw)] == [bytes(item).strip() for item in decoded]


@pytest.mark.pitfall(70)
@pytest.mark.parametrize("odd", [rb'{"a":"\ud800"}', b'{"a":NaN}', b'{"a":"\xff"}', b'{"a":"\x00"}', b'"\\ud800"'])
def test_an_odd_item_stays_alone(odd: bytes) -> None:
    assert list(split_batch(b'[{"a":"],"},' + odd + b',{"b":[1]}]')) == [b'{"a":"],"}', odd, b'{"b":[1]}']


@pytest.mark.parametrize(
    "raw", [b"", b"[", b'[{"a":1}', b'["\\ud800"', b'[{"a":NaN}]]', b'{"a":"\\ud800"}', b"[NaN}"]
)
def test_what_is_no_array_is_refused_as_a_whole(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the body"):
        split_batch(raw)
