"""The lock files fit pyproject.toml and can be installed with hashes from any package index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def locked_versions(name: str) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if match := LOCKED.match(line):
            versions.setdefault(match[1], set()).add(match[2])
    return versions


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0].lower().replace("_", "-") for text in requirements}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock", "requirements-dev.lock"])
def test_every_line_is_a_pinned_package_or_its_hash(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if not LOCKED.match(line) and not HASH.match(line)] == []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if LOCKED.match(line):
            assert HASH.match(following), line


def test_locks_hold_what_the_project_asks_for() -> None:
    groups = PROJECT["dependency-groups"]
    runtime, build, dev = map(
        locked_versions, ["requirements.lock", "requirements-build.lock", "requirements-dev.lock"]
    )
    assert named(PROJECT["project"]["dependencies"]) <= runtime.keys(), "run 'make lock'"
    assert named(groups["build"]) <= build.keys(), "run 'make lock'"
    assert named(groups["dev"]) <= dev.keys(), "run 'make lock'"


def test_build_backend_of_the_package_is_locked() -> None:
    assert named(PROJECT["build-system"]["requires"]) <= locked_versions("requirements-build.lock").keys()


def test_one_environment_can_hold_all_three() -> None:
    dev = locked_versions("requirements-dev.lock")
    for name in ("requirements.lock", "requirements-build.lock"):
        for package, versions in locked_versions(name).items():
            assert dev[package] == versions, package
