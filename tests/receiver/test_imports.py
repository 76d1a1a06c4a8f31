"""A receiving service loads nothing of the server."""

import subprocess
import sys

import tickwheel.receiver

HEAVY = (
    *("numpy", "apsw", "pycurl", "starlette", "uvicorn", "msgspec", "structlog", "click", "cryptography", "jwt"),
    *("httptools", "uvloop", "prometheus_client", "psycopg", "asyncpg", "sqlalchemy", "redis", "sqlite3"),
)


def test_the_package_alone_is_loaded() -> None:
    program = (
        "import sys, tickwheel.receiver\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "ours = {name for name in sys.modules if name.startswith('tickwheel.')}\n"
        "others = [name for name in ours if not name.startswith('tickwheel.receiver')]\n"
        "assert not heavy + others, heavy + others\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_are_there_once() -> None:
    names = tickwheel.receiver.__all__
    assert len(names) == len(set(names))
    assert all(hasattr(tickwheel.receiver, name) for name in names)
