"""Installs the peers at their pinned versions into a folder outside of the checkout, through npm, pip, go and mvn.

Which registries those ask is their own configuration. The folder is made anew when a pinned version changes.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from bench.peers.catalogue import NODE, NPM, PYPI, Peer, Runtime
from bench.peers.clients import InstallFailed, is_stale, renew, run_client, stamp
from bench.peers.compiled import build_go, build_java, java_command

PROGRAMS: Final = Path(__file__).parent / "programs"
ROOT: Final = Path(__file__).parent.parent.parent
OPTIONAL: Final = frozenset({Runtime.GO, Runtime.JAVA})
"""Peers of these are left out where they can't be had; without the others the run fails."""
TOLD_CHARACTERS: Final = 200
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def default_cache() -> Path:
    """Where programs keep what they can fetch again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tickwheel-bench-peers"


class Toolchain:
    """The peers' programs and what runs them."""

    def __init__(self, cache: Path) -> None:
        self._npm, self._python = cache / "npm", cache / "python"
        self._go, self._java = cache / "go", cache / "java"

    def install(self, peers: Iterable[Peer]) -> dict[Runtime, str]:
        """Install what these peers need and isn't there yet.

        Returns which optional runtimes can't be had, and why in one line; InstallFailed for the others.
        """
        steps: dict[Runtime, Callable[[], None]] = {
            Runtime.NODE: self._install_npm,
            Runtime.PYTHON: self._install_python,
            Runtime.GO: lambda: build_go(self._go, PROGRAMS),
            Runtime.JAVA: lambda: build_java(self._java, PROGRAMS),
        }
        needed, missing = {peer.runtime for peer in peers}, {}
        for runtime, install in steps.items():
            if runtime in needed:
                try:
                    install()
                except InstallFailed as error:
                    if runtime not in OPTIONAL:
                        raise
                    missing[runtime] = " ".join(str(error).split())[:TOLD_CHARACTERS]
        return missing

    def command(self, peer: Peer) -> list[str]:
        """What starts the peer's program; its arguments follow."""
        if peer.runtime is Runtime.NODE:
            return [self._node(), str(self._npm / peer.program)]
        if peer.runtime is Runtime.GO:
            return [str(self._go / "program")]
        if peer.runtime is Runtime.JAVA:
            return java_command(self._java, peer.program)
        python = sys.executable if peer.runtime is Runtime.TICKWHEEL else str(self._python / "bin" / "python")
        return [python, "-m", f"bench.peers.programs.{peer.program}"]

    def version(self, runtime: Runtime) -> str:
        """Of what runs these peers, as it says."""
        if runtime is Runtime.NODE:
            return _said([self._node(), "--version"]).lstrip("v")
        if runtime is Runtime.GO:
            return _said(["go", "env", "GOVERSION"], self._go).removeprefix("go")
        if runtime is Runtime.JAVA:
            return _said(["java", "--version"]).split()[1]
        return sys.version.split()[0]

    def _install_npm(self) -> None:
        if is_stale(self._npm, {**NPM, "node": NODE}):
            renew(self._npm)
            (self._npm / "package.json").write_text('{"private": true, "type": "module"}')
            packages = [f"{name}@{version}" for name, version in {**NPM, **_node_package()}.items()]
            flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            run_client(["npm", "install", *flags, *packages], self._npm)
            stamp(self._npm, {**NPM, "node": NODE})
        for program in PROGRAMS.glob("*.mjs"):  # beside its node_modules: that is where imports are looked up
            shutil.copy(program, self._npm)

    def _install_python(self) -> None:
        if is_stale(self._python, PYPI):
            shutil.rmtree(self._python, ignore_errors=True)
            self._python.parent.mkdir(parents=True, exist_ok=True)
            run_client([sys.executable, "-m", "venv", str(self._python)], self._python.parent)
            packages = [f"{name}=={version}" for name, version in PYPI.items()]
            pip = [str(self._python / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
            run_client([*pip, "--disable-pip-version-check", *packages], self._python)
            stamp(self._python, PYPI)

    def _node(self) -> str:
        (package,) = _node_package() or ("",)
        own = self._npm / "node_modules" / package / "bin" / "node"
        return str(own) if own.is_file() else "node"


def _node_package() -> dict[str, str]:
    """The package with the Node.js for this machine, so that an older one on the PATH does no harm."""
    machine = _MACHINES.get(platform.machine().lower())
    return {f"node-{platform.system().lower()}-{machine}": NODE} if machine else {}


def _said(command: list[str], folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
