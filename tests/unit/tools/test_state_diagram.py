"""The generated page of run states."""

from pathlib import Path

import pytest

import state_diagram
from tickwheel.domain.run import TRANSITIONS

ROOT = Path(__file__).parents[3]


def test_page_is_current() -> None:
    page = (ROOT / state_diagram.PAGE).read_text()
    assert state_diagram.replace_generated(page, state_diagram.render()) == page, "run 'make fmt'"


def test_every_move_of_the_table_has_its_arrow_and_its_cause() -> None:
    arrows = [line.strip() for line in state_diagram.render().splitlines() if "-->" in line]
    for cause, moves in TRANSITIONS.items():
        for source, to in moves:
            start = f"{source.name if source is not None else '[*]'} --> {to.name}: "
            labels = [arrow.removeprefix(start).split(", ") for arrow in arrows if arrow.startswith(start)]
            assert len(labels) == 1, start
            assert cause.name.lower() in labels[0]


def test_old_page_fails_the_check_and_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    state_diagram.PAGE.parent.mkdir(parents=True)
    old = f"before\n{state_diagram.BEGIN}\nold\n{state_diagram.END}\nafter\n"
    state_diagram.PAGE.write_text(old)
    assert state_diagram.main(["--check"]) == 1
    assert state_diagram.PAGE.read_text() == old
    assert "make fmt" in capsys.readouterr().err
    assert state_diagram.main([]) == 0
    written = state_diagram.PAGE.read_text()
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert state_diagram.main(["--check"]) == 0


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit, match="markers"):
        state_diagram.replace_generated("no markers", "new")
