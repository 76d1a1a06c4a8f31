"""Notices that the disk is as good as full, which a small write that happens to fit does not show."""

import os
from pathlib import Path
from typing import Final

from tickwheel.domain.errors import StoreUnavailable

LEAST_FREE_BYTES: Final = 256 * 1024
"""A batch of jobs or claims needs as much."""


def check_room(folder: Path) -> None:
    """Raise `StoreUnavailable` where hardly anything can be written any more."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return  # that the folder is gone is found elsewhere
    free_bytes = found.f_bavail * found.f_frsize
    if found.f_blocks and free_bytes < LEAST_FREE_BYTES:
        raise StoreUnavailable(f"the disk is full ({free_bytes // 1024} KiB are free)")
