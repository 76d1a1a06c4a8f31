"""Prometheus and promtool, where the machine has them, and the files that are shipped for them."""

import shutil
from pathlib import Path
from typing import Final

import pytest

DEPLOY: Final = Path(__file__).parents[2] / "deploy"


def binary(name: str) -> str:
    """Where the program is; a test without it is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on this machine (Debian's package prometheus brings it)")
    return found
