"""The reference of the HTTP API says what the server does."""

from pathlib import Path

import pytest

import http_api_page

ROOT = Path(__file__).parents[3]


def test_the_reference_is_current() -> None:
    page = (ROOT / http_api_page.PAGE).read_text()
    assert http_api_page.replace_generated(page, http_api_page.render()) == page, (
        "run 'python tools/http_api_page.py'"
    )


def test_an_old_page_is_found_and_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    http_api_page.PAGE.parent.mkdir(parents=True)
    http_api_page.PAGE.write_text(f"before\n{http_api_page.BEGIN}\nold\n{http_api_page.END}\nafter\n")
    assert http_api_page.main(["--check"]) == 1
    assert http_api_page.main([]) == 0
    assert http_api_page.main(["--check"]) == 0
    written = http_api_page.PAGE.read_text()
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "`POST /v1/jobs/batch`" in written


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit, match="markers"):
        http_api_page.replace_generated("nothing", "new")
