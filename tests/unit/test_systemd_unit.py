"""The unit in `deploy/` is the one that the page shows, and systemd finds little to say against it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "tickwheel.service"
PAGE = ROOT / "docs" / "how-to" / "run-as-a-service.md"
MOST = 2.0


def test_the_page_shows_the_unit() -> None:
    (shown,) = re.findall(
        r"```ini\n# /etc/systemd/system/tickwheel\.service\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert shown == UNIT.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_knows_every_line_and_finds_it_tight() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    found = re.search(r"Overall exposure level for tickwheel\.service: ([0-9.]+)", done.stdout)
    if found is None:
        pytest.skip("this systemd can't look at a file")
    assert float(found[1]) <= MOST
    assert "nknown" not in done.stderr, done.stderr
