"""Asks whether a version that is pinned has known vulnerabilities, through pip-audit.

pip-audit is installed into an environment of its own for the moment: it has dozens of dependencies, which tests
and checks don't need. Without a network, or where the index has no such data, nothing is known; that is said, and
is no failure. What is known and doesn't concern us is listed with the reason in `dependencies.toml`.

usage: python tools/known_vulnerabilities.py
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

LOCK: Final = "requirements-dev.lock"
"""It holds what the others hold, too."""
LIMIT_S: Final = 300


def read_report(text: str) -> tuple[list[str], int, int]:
    """The vulnerabilities, and how many packages were and were not looked up. Raises `ValueError`."""
    report: Any = json.loads(text)
    problems, known_count, unknown_count = [], 0, 0
    for package in report["dependencies"]:
        if "skip_reason" in package:
            unknown_count += 1
            continue
        known_count += 1
        for found in package["vulns"]:
            fixed = " or ".join(found["fix_versions"]) or "no version yet"
            problems.append(f"{package['name']} {package['version']}: {found['id']}, mended in {fixed}")
    return problems, known_count, unknown_count


def ask(accepted: Sequence[str], folder: Path) -> str:
    """pip-audit's report. Raises `OSError` when there is none."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    _run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "pip-audit"])
    ignored = [part for one in accepted for part in ("--ignore-vuln", one)]
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json", *ignored]
    return _run([python, "-m", "pip_audit", *options, "--requirement", LOCK], may_find=True)


def _run(command: list[str], *, may_find: bool = False) -> str:
    """What it prints. pip-audit's exit code is 1 both when it has found something and when it can't ask."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no answer within {LIMIT_S} s") from error
    if done.returncode == 0 or (may_find and done.stdout.startswith("{")):
        return done.stdout
    last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    raise OSError(last[0])


def main() -> int:
    """Print what is known; the exit code says if something is."""
    rules = tomllib.loads(Path(__file__).with_name("dependencies.toml").read_text())
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = ask(list(rules["accepted"]), Path(folder))
        problems, known_count, unknown_count = read_report(report)
    except (OSError, ValueError, KeyError) as error:
        print(f"not asked for known vulnerabilities: the service can't be reached ({error})")
        return 0
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    if not known_count:
        print(f"not asked for known vulnerabilities: the service knows none of the {unknown_count} packages here")
        return 0
    print(f"{known_count} packages without known vulnerabilities; the service doesn't know {unknown_count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
