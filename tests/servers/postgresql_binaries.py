"""Where PostgreSQL's programs are: named, on the machine already, or installed by us where we may.

`TESTS_POSTGRESQL_BIN` names the folder of `initdb` and `postgres`, or several with a colon between: the first is
what the tests take, the others are further versions for `make test-engines`. (Not TICKWHEEL_...: a node that a
test starts would refuse it as a setting that it doesn't know.) As a program, this prints one folder for each
version that there is besides what the tests take.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .processes import install, may_install, one_at_a_time

LOWEST_VERSION = 15
SETTING = "TESTS_POSTGRESQL_BIN"
_NO_MAIN_CLUSTER = Path("/etc/postgresql-common/createcluster.d/no-main-cluster.conf")


class NoPostgres(Exception):
    """There is no PostgreSQL here, and we may not install one."""


@cache
def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`; raises `NoPostgres`.

    What the setting names is taken or nothing: tests of one version must not run on another in silence. Else it is
    looked for where `pg_config` points to, then in Debian's folders, newest version first. On a Debian machine
    without any, root installs the package (once, without starting a server).
    """
    named = _named()
    if named:
        if not _is_usable(named[0]):
            raise RuntimeError(f"{SETTING}: no PostgreSQL {LOWEST_VERSION} or newer in {named[0]}")
        return named[0]
    for folder in _found():
        if _is_usable(folder):
            return folder
    if may_install():
        with one_at_a_time():
            if not list(_debian()):
                _install()
        for folder in _debian():
            return folder
    raise NoPostgres(
        f"no PostgreSQL {LOWEST_VERSION} or newer here: install it, or set {SETTING} to the folder of its `initdb`"
    )


def other_versions() -> list[Path]:
    """A folder for each version but the one that the tests take, the newest first."""
    by_version = {_version(folder): folder for folder in reversed([*_named(), *_found()]) if _is_usable(folder)}
    by_version.pop(_version(find_binaries()), None)
    return [by_version[version] for version in sorted(by_version, reverse=True)]


def _named() -> list[Path]:
    return [Path(name) for name in os.environ.get(SETTING, "").split(os.pathsep) if name]


def _is_usable(folder: Path) -> bool:
    return all((folder / program).exists() for program in ("postgres", "initdb")) and (
        _version(folder) >= LOWEST_VERSION
    )


def _found() -> Iterator[Path]:
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if told.returncode == 0:
            yield Path(told.stdout.strip())
    yield from _debian()
    if initdb := shutil.which("initdb"):
        yield Path(initdb).resolve().parent


def _debian() -> Iterator[Path]:
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    yield from sorted(found, key=_version, reverse=True)


def _version(folder: Path) -> int:
    told = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    words = told.stdout.split()  # "postgres (PostgreSQL) 15.18 (Debian ...)"
    return int(words[2].split(".")[0]) if len(words) > 2 and words[2][0].isdigit() else 0


def _install() -> None:
    """Without a cluster of the package's own: it would take the default port."""
    ours = not _NO_MAIN_CLUSTER.exists()
    if ours:
        _NO_MAIN_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        _NO_MAIN_CLUSTER.write_text("create_main_cluster = false\n")
    try:
        install("postgresql")
    finally:
        if ours:
            _NO_MAIN_CLUSTER.unlink(missing_ok=True)


if __name__ == "__main__":
    print("\n".join(map(str, other_versions())))
