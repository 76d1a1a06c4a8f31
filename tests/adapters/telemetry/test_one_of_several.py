"""What one of several processes says can be told from what the others say."""

import io
import json

import pytest
import structlog

from tickwheel.adapters.telemetry.logs import configure_logs
from tickwheel.adapters.telemetry.metrics import Metrics


def test_every_series_of_a_numbered_process_has_its_label() -> None:
    lines = [line for line in Metrics("2").render().decode().splitlines() if not line.startswith("#")]
    assert lines
    assert all('process="2"' in line for line in lines)
    assert any(
        line.startswith('tickwheel_lateness_seconds_bucket{lane="HIGH",le="0.005",process="2"}') for line in lines
    )


def test_a_process_of_its_own_has_no_such_label() -> None:
    assert "process=" not in Metrics().render().decode()


def test_a_line_is_written_at_once() -> None:
    """So that the lines of several processes that write to one place don't run into one another."""

    class Place(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    written: list[str] = []
    configure_logs(log_format="json", log_level="info", stream=Place())
    structlog.get_logger().info("something.happened")
    assert [text[-2:] for text in written] == ["}\n"]


def test_every_line_names_its_node() -> None:
    for node, wanted in (("machine-7-2", "machine-7-2"), ("", None)):
        stream = io.StringIO()
        configure_logs(log_format="json", log_level="info", node=node, stream=stream)
        structlog.get_logger().info("something.happened", count=3)
        assert json.loads(stream.getvalue()).get("node") == wanted


@pytest.mark.parametrize("odd", ["\x1b[2J", "\u009b2J", "\ud800", "\u2028", 2**80, object(), b"bytes", {1: "a"}])
def test_a_json_line_is_json_and_plain_whatever_is_told(odd: object) -> None:
    stream = io.StringIO()
    configure_logs(log_format="json", log_level="info", node="n", stream=stream)
    structlog.get_logger().info("odd", told=odd)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "odd"
    assert line.isascii()
    assert line.isprintable()
