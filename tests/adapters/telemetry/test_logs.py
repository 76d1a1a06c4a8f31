"""Log lines have the form that was asked for, whoever wrote them."""

import io
import json
import logging

import pytest

from tickwheel.adapters.telemetry.logs import configure_logs


@pytest.fixture
def json_lines() -> io.StringIO:
    stream = io.StringIO()
    configure_logs(log_format="json", log_level="info", stream=stream)
    return stream


def test_lines_of_libraries_are_json_too(json_lines: io.StringIO) -> None:
    configure_logs(log_format="json", log_level="info", stream=json_lines)  # twice: still one line each
    logging.getLogger("some.library").warning("about %d things", 3)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("some.library").exception("it failed")
    about, failed = (json.loads(line) for line in json_lines.getvalue().splitlines())
    assert (about["event"], about["level"], about["logger"]) == ("about 3 things", "warning", "some.library")
    assert "ValueError: broken" in failed["exception"]


def test_lines_below_the_level_are_left_out(json_lines: io.StringIO) -> None:
    logging.getLogger("some.library").debug("chatter")
    assert not json_lines.getvalue()
