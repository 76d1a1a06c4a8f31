"""Installs the peers at their pinned versions into a folder outside of the checkout, through npm and pip.

Which registries those ask is their own configuration. The folder is made anew when a pinned version changes.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bench.peers.catalogue import NODE, NPM, PYPI, Peer, Runtime

PROGRAMS: Final = Path(__file__).parent / "programs"
ROOT: Final = Path(__file__).parent.parent.parent
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class InstallFailed(Exception):
    """A package client said no."""


def default_cache() -> Path:
    """Where programs keep what they can fetch again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tickwheel-bench-peers"


class Toolchain:
    """The peers' programs and what runs them."""

    def __init__(self, cache: Path) -> None:
        self._npm, self._python = cache / "npm", cache / "python"

    def install(self, peers: Iterable[Peer]) -> None:
        """Install what these peers need and isn't there yet."""
        runtimes = {peer.runtime for peer in peers}
        if Runtime.NODE in runtimes:
            self._install_npm()
        if Runtime.PYTHON in runtimes:
            self._install_python()

    def command(self, peer: Peer) -> list[str]:
        """What starts the peer's program; its arguments follow."""
        if peer.runtime is Runtime.NODE:
            return [self._node(), str(self._npm / peer.program)]
        python = sys.executable if peer.runtime is Runtime.TICKWHEEL else str(self._python / "bin" / "python")
        return [python, "-m", f"bench.peers.programs.{peer.program}"]

    def node_version(self) -> str:
        """Of the Node.js that runs the peers, as it says."""
        return subprocess.run(
            [self._node(), "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def _install_npm(self) -> None:
        if _is_stale(self._npm, {**NPM, "node": NODE}):
            _renew(self._npm)
            (self._npm / "package.json").write_text('{"private": true, "type": "module"}')
            packages = [f"{name}@{version}" for name, version in {**NPM, **_node_package()}.items()]
            flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            _run(["npm", "install", *flags, *packages], self._npm)
            _stamp(self._npm, {**NPM, "node": NODE})
        for program in PROGRAMS.glob("*.mjs"):  # beside its node_modules: that is where imports are looked up
            shutil.copy(program, self._npm)

    def _install_python(self) -> None:
        if _is_stale(self._python, PYPI):
            shutil.rmtree(self._python, ignore_errors=True)
            self._python.parent.mkdir(parents=True, exist_ok=True)
            _run([sys.executable, "-m", "venv", str(self._python)], self._python.parent)
            packages = [f"{name}=={version}" for name, version in PYPI.items()]
            pip = [str(self._python / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
            _run([*pip, "--disable-pip-version-check", *packages], self._python)
            _stamp(self._python, PYPI)

    def _node(self) -> str:
        (package,) = _node_package() or ("",)
        own = self._npm / "node_modules" / package / "bin" / "node"
        return str(own) if own.is_file() else "node"


def _node_package() -> dict[str, str]:
    """The package with the Node.js for this machine, so that an older one on the PATH does no harm."""
    machine = _MACHINES.get(platform.machine().lower())
    return {f"node-{platform.system().lower()}-{machine}": NODE} if machine else {}


def _renew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _is_stale(folder: Path, versions: Mapping[str, str]) -> bool:
    stamp = folder / "versions.json"
    return not stamp.is_file() or json.loads(stamp.read_text()) != dict(versions)


def _stamp(folder: Path, versions: Mapping[str, str]) -> None:
    (folder / "versions.json").write_text(json.dumps(dict(versions)))


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise InstallFailed(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise InstallFailed(f"{command[0]} ended with code {done.returncode}: {done.stderr.strip()[-600:]}")
