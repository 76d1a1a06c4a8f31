"""Errands for processes apart; a module, because those import them by name. They meet the test in a folder."""

import os
import time
import uuid
from pathlib import Path

from tickwheel.adapters.handlers.endings import Fail, Retry

FOLDER_VARIABLE = "TICKWHEEL_TEST_FOLDER"
GATE = "gate"


def succeed() -> None:
    _begin()


def fail_for_now() -> None:
    _begin()
    raise Retry("not now")


def fail_for_good() -> None:
    _begin()
    raise Fail("never")


def wait() -> None:
    folder = _begin()
    while not (folder / GATE).exists():
        time.sleep(0.005)


def _begin() -> Path:
    folder = Path(os.environ[FOLDER_VARIABLE])
    (folder / f"begun-{uuid.uuid4()}").touch()
    return folder
