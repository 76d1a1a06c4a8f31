"""No type of Python reaches whoever sends JSON."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from tickwheel.domain.access import Role
from tickwheel.domain.requests.decoder_words import plain_words


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Annotated[int, Meta(ge=60)], 5, "must be a whole number of at least 60"),
        (Annotated[int, Meta(le=60)] | None, 61, "must be a whole number of at most 60"),
        (Annotated[float, Meta(gt=0)], 0.0, "must be a number above 0.0"),
        (Annotated[str, Meta(max_length=200)], "x" * 201, "must have at most 200 characters"),
        (Annotated[str, Meta(min_length=1)], "", "must have at least 1 character"),
        (Annotated[list[int], Meta(max_length=2)], [1, 2, 3], "must have at most 2 entries"),
        (int, "x", "must be a whole number, not a string"),
        (int | None, [1], "must be a whole number or null, not an array"),
        (dict[str, int], 7, "must be an object, not a whole number"),
        (bool, 7, "must be true or false, not a whole number"),
        (str, 1.5, "must be a string, not a number"),
        (Annotated[str, Meta(pattern="^a$")], "b", "does not have the form that is asked for"),
        (Role, "king", "'king' is none of the values that are known here"),
        (Literal["a", "b"], "c", "'c' is none of the values that are known here"),
    ],
)
def test_what_the_decoder_says_is_told_in_plain_words(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, kind)
    assert plain_words(str(caught.value)) == words
    assert "`" not in words
