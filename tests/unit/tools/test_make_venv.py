"""Choosing a Python and making the virtual environment, with stand-ins for the interpreters."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "make_venv.sh"

GOOD = """#!/bin/sh
case "$*" in
  --version) echo "Python 3.12.9 from $0" ;;
  "-m venv --clear "*) echo "$0" > made-by ;;
  "-c import sys; print"*) echo 3.12 ;;
esac
"""
OLD = "#!/bin/sh\nexit 1\n"
SHIM = '#!/bin/sh\necho "no such version" >&2\nexit 127\n'
BARE = """#!/bin/sh
case "$*" in
  "-c import ensurepip, venv") exit 1 ;;
  "-c import sys; print"*) echo 3.11 ;;
esac
"""


class Machine:
    """A folder of commands that is the whole PATH, and a checkout to work in."""

    def __init__(self, folder: Path) -> None:
        self.commands, self.checkout = folder / "bin", folder / "check out"
        self.commands.mkdir()
        self.checkout.mkdir()
        for tool in ("sh", "grep"):
            (self.commands / tool).symlink_to(
                next(p for p in (Path("/bin") / tool, Path("/usr/bin") / tool) if p.exists())
            )

    def add(self, path: str, script: str) -> None:
        target = self.commands / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(script)
        target.chmod(0o755)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.commands / "sh", SCRIPT, ".venv"],
            cwd=self.checkout,
            env={"PATH": str(self.commands), **environment},
            capture_output=True,
            text=True,
        )

    def maker(self) -> str:
        return Path((self.checkout / "made-by").read_text().strip()).name


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_newest_python_that_works_is_taken(machine: Machine) -> None:
    machine.add("python3.13", SHIM)
    machine.add("python3.12", GOOD)
    machine.add("python3", GOOD)
    assert machine.run().returncode == 0
    assert machine.maker() == "python3.12"


def test_plain_python3_is_enough_when_it_is_new_enough(machine: Machine) -> None:
    machine.add("python3", GOOD)
    assert machine.run().returncode == 0
    assert machine.maker() == "python3"


def test_python_that_can_make_environments_goes_before_one_that_cannot(machine: Machine) -> None:
    machine.add("python3.12", BARE)
    machine.add("python3.11", GOOD)
    assert machine.run().returncode == 0
    assert machine.maker() == "python3.11"


def test_missing_venv_module_is_named_with_its_debian_package(machine: Machine) -> None:
    machine.add("python3", BARE)
    done = machine.run()
    assert done.returncode == 1
    assert "apt install python3.11-venv" in done.stderr


def test_no_python_is_said_plainly(machine: Machine) -> None:
    machine.add("python3", OLD)
    done = machine.run()
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_python_chosen_by_hand_is_the_only_candidate(machine: Machine) -> None:
    machine.add("python3.12", GOOD)
    machine.add("old", OLD)
    done = machine.run(PYTHON="old")
    assert done.returncode == 1
    assert "PYTHON=old is not a working Python" in done.stderr


def test_working_environment_is_kept_and_a_moved_one_is_not(machine: Machine) -> None:
    machine.add("python3", GOOD)
    environment = machine.checkout / ".venv" / "bin"
    machine.add(os.path.relpath(environment / "python", machine.commands), GOOD)
    (environment / "pip").write_text(f"#!{environment}/python\n")
    assert machine.run().returncode == 0
    assert not (machine.checkout / "made-by").exists()
    (environment / "pip").write_text("#!/elsewhere/.venv/bin/python\n")
    done = machine.run()
    assert done.returncode == 0
    assert "another place" in done.stdout
    assert machine.maker() == "python3"
