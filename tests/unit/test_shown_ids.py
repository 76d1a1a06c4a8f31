"""What is taken for the id of an API key is not repeated when it may be more than that."""

import pytest

from tickwheel.domain.api_keys import key_text, make_id, make_secret, parse_key, shown_id

ID, SECRET = make_id(bytes(range(8))), make_secret(bytes(range(20)))


def test_an_id_is_shown() -> None:
    assert shown_id(ID) == ID
    assert parse_key(key_text(ID, SECRET)) == (ID, SECRET)


@pytest.mark.parametrize("text", [key_text(ID, SECRET), SECRET, "", ID + "0", ID[:-1] + "!"])
def test_anything_else_is_not(text: str) -> None:
    assert shown_id(text) == "of that id"
