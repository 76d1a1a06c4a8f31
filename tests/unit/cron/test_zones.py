"""Zone data comes from the `tzdata` package alone, whatever the machine says."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest

from tickwheel.domain.timeline import MIN_S, timeline_of
from tickwheel.domain.zones import UnknownZoneError, load_zone, tzdata_version, zone_bytes, zone_names

SCRIPT = """
from tickwheel.domain.cron import preview
for zone in ("Europe/Berlin", "UTC", "Asia/Shanghai"):
    shown = preview("30 2 * * *", zone, 1774700000000, 3)
    print(shown.next_ms, shown.local, shown.notes)
"""


def answer_on_a_machine(**environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("TZ", "PYTHONTZPATH")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


@pytest.mark.pitfall(11)
def test_answers_do_not_depend_on_the_zone_of_the_machine() -> None:
    answers = {
        answer_on_a_machine(TZ="UTC"),
        answer_on_a_machine(TZ="Asia/Shanghai"),
        answer_on_a_machine(TZ="America/St_Johns", PYTHONTZPATH="/nonexistent"),
    }
    assert len(answers) == 1
    assert "2026-03-29T03:00:00+02:00" in answers.pop()


def test_zone_files_of_the_machine_are_not_read(tmp_path: Path) -> None:
    lying = tmp_path / "Europe" / "Berlin"
    lying.parent.mkdir()
    lying.write_bytes(zone_bytes("Asia/Tokyo"))
    assert answer_on_a_machine(PYTHONTZPATH=str(tmp_path)) == answer_on_a_machine()


def test_version_is_that_of_the_package() -> None:
    year, release = version("tzdata").split(".")[:2]
    assert tzdata_version() == f"{year}{chr(ord('a') + int(release) - 1)}"


def test_names_are_all_zones_and_links_but_no_placeholders() -> None:
    assert {"UTC", "Europe/Berlin", "US/Eastern", "Etc/GMT+5", "America/Argentina/Ushuaia"} <= zone_names()
    assert not {"Factory", "localtime", "posixrules", ""} & zone_names()
    assert len(zone_names()) > 500


def test_every_zone_has_a_timeline() -> None:
    now_s = 1_790_000_000
    for name in zone_names():
        offset = datetime.fromtimestamp(now_s, UTC).astimezone(load_zone(name)).utcoffset()
        assert offset is not None
        assert timeline_of(name).offset_at(now_s) == offset.total_seconds()


def test_no_zone_changes_its_clock_again_within_an_overlap() -> None:
    for name in zone_names():
        changes = list(timeline_of(name).changes(MIN_S, 2_500_000_000))
        assert all(after.start - before.start > 2 * 86_400 for before, after in pairwise(changes)), name
        assert all(abs(change.jump) <= 86_400 for change in changes), name


@pytest.mark.parametrize(
    "name",
    [
        "../zones",
        "../../tzdata/zones",
        "/etc/passwd",
        "/usr/share/zoneinfo/UTC",
        "Europe/../UTC",
        "Europe//Berlin",
        "Europe/Berlin/",
        "Europe",
        "./UTC",
        "UTC\x00",
        "UTC ",
        "\ud800",
        "Factory",
        "localtime",
        "",
        "a" * 100_000,
    ],
)
def test_anything_but_a_listed_name_is_refused(name: str) -> None:
    for load in (load_zone, zone_bytes, timeline_of):
        with pytest.raises(UnknownZoneError) as caught:
            load(name)
        assert len(str(caught.value)) < 400
        assert str(caught.value).isascii()


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("EUROPE/BERLIN", "Europe/Berlin"),
        ("new_york", "America/New_York"),
        ("New York", "America/New_York"),
        ("utc", "UTC"),
        ("berln", "Europe/Berlin"),
        ("Mars/Olympus_Mons", None),
        ("CEST", None),
        ("EST5", None),
        ("UTC+2", None),
    ],
)
def test_close_names_are_suggested(name: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownZoneError) as caught:
        load_zone(name)
    assert caught.value.suggestion == suggestion
