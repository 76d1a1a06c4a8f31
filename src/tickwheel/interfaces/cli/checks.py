"""What `tickwheel doctor` looks at. Every check gives findings; none raises, none changes anything."""

import errno
import os
import platform
import resource
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from tickwheel.config import Settings
from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.cli.checks_secrets import check_secrets
from tickwheel.interfaces.cli.checks_tls import check_tls, shows_certificate
from tickwheel.interfaces.cli.checks_tokens import check_tokens
from tickwheel.interfaces.cli.findings import Finding, Level
from tickwheel.interfaces.cli.mounts import file_system_of
from tickwheel.interfaces.client.blocking import Client
from tickwheel.wiring import (
    exposure_of,
    handler_names,
    pending_steps,
    sqlite_path,
    store_url,
    system_clock,
)

_MIB: Final = 1 << 20
DISK_FAIL_BYTES: Final = 100 * _MIB
DISK_WARN_BYTES: Final = 1024 * _MIB
OTHER_FILES_COUNT: Final = 512
"""Descriptors for the database and the rest, beside one per connection and per webhook in flight."""
CLOCK_WATCHED_S: Final = 0.25
CLOCK_WARN_MS: Final = 20
PROBE_SECONDS: Final = 2.0
_PACKAGES: Final = ("apsw", "click", "httptools", "msgspec", "numpy", "pycurl", "starlette", "uvicorn")
_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs"}
)
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


def check_all(settings: Settings) -> list[Finding]:
    """Everything, in an order that puts causes before their consequences."""
    checks: list[Callable[[Settings], Iterator[Finding]]]
    checks = [_folder, _store, check_secrets, check_tokens, _files, _clock, _port, check_tls, _handlers]
    if store_url(settings).startswith("memory:"):
        checks.remove(_folder)
    if settings.clustered:
        checks[:2] = [_postgresql, _processes]
    return check_versions() + [finding for check in checks for finding in check(settings)]


def check_versions() -> list[Finding]:
    """Programs and data that the answers depend on."""
    found = [
        Finding("tickwheel", Level.OK, version("tickwheel")),
        Finding("python", Level.OK, f"{platform.python_version()} ({platform.system()} {platform.machine()})"),
        Finding("libraries", Level.OK, ", ".join(f"{name} {version(name)}" for name in _PACKAGES)),
        Finding("time zones", Level.OK, f"tzdata {tzdata_version()}"),
    ]
    try:
        found.append(Finding("event loop", Level.OK, f"uvloop {version('uvloop')}"))
    except PackageNotFoundError:
        found.append(Finding("event loop", Level.WARN, "asyncio's own", "Install uvloop: it is much faster."))
    return found


def _postgresql(settings: Settings) -> Iterator[Finding]:
    from tickwheel.interfaces.cli.checks_postgresql import check_postgresql

    return check_postgresql(settings)


def _processes(settings: Settings) -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if settings.processes > cores:
        text = f"{settings.processes} of them on {cores} cores"
        yield Finding("processes", Level.WARN, text, f"More than cores only cost: lower --processes to {cores}.")


def _folder(settings: Settings) -> Iterator[Finding]:
    scheme, _, rest = settings.store.partition(":")
    folder = (sqlite_path(rest) if scheme == "sqlite" else Path(settings.data)).absolute()
    existing = folder.parent if folder.is_file() else folder
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        yield Finding(
            "data folder",
            Level.FAIL,
            f"{existing} can't be written to",
            "Choose another with --data, or chown it.",
        )
        return
    note = "" if folder.exists() else " (does not exist yet)"
    yield _file_system(f"{folder}{note}", file_system_of(existing))
    exposed, chmod = exposure_of(settings)
    if exposed:
        yield Finding("permissions", Level.WARN, exposed, f"Run: {chmod}")
    yield _disk(existing)


def _file_system(shown: str, kind: str) -> Finding:
    if kind in _NETWORK:
        text = f"{shown} is on {kind}, a network file system: SQLite's locks don't hold there"
        return Finding("data folder", Level.FAIL, text, "Choose a folder on a local disk with --data.")
    if kind in _IN_MEMORY:
        text = f"{shown} is on {kind}: jobs are lost when the machine restarts"
        return Finding("data folder", Level.WARN, text, "Choose a folder on a disk with --data.")
    if kind == "overlay":
        text = f"{shown} is on overlay: in a container, it goes away with the container"
        return Finding("data folder", Level.WARN, text, "Mount a volume and name it with --data.")
    return Finding("data folder", Level.OK, f"{shown}, writable, on {kind or 'an unknown file system'}")


def _disk(folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    text = f"{usage.free / (1024 * _MIB):.1f} GiB free"
    if usage.free < DISK_FAIL_BYTES:
        return Finding("disk", Level.FAIL, text, "Make room: without it no job can be acknowledged.")
    if usage.free < DISK_WARN_BYTES:
        return Finding("disk", Level.WARN, text, "Make room, or lower --retention-days.")
    return Finding("disk", Level.OK, text)


def _store(settings: Settings) -> Iterator[Finding]:
    url = store_url(settings)
    if url.startswith("memory:"):
        yield Finding(
            "store", Level.WARN, "memory: nothing survives a restart", "Use sqlite for jobs that matter."
        )
        return
    try:
        pending = pending_steps(url)
    except TickwheelError as error:
        yield Finding("store", Level.FAIL, f"{url}: {error}")
    except OSError as error:
        yield Finding("store", Level.FAIL, f"{url}: {error.strerror or error}")
    else:
        if pending:
            text = f"{url}: migrations to do: {len(pending)}"
            yield Finding(
                "store", Level.OK, text, "The next start does them; `tickwheel migrate --plan` lists them."
            )
        else:
            yield Finding("store", Level.OK, f"{url}, schema up to date")


def _files(settings: Settings) -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + settings.webhook_slots + OTHER_FILES_COUNT
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        yield Finding("open files", Level.OK, "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}")
    else:
        remedy = f"Raise it to {wanted:,} (ulimit -Hn, or LimitNOFILE= in systemd), or lower --connections."
        yield Finding("open files", Level.WARN, f"at most {hard:,}", remedy)


def _clock(settings: Settings) -> Iterator[Finding]:
    """A clock that is being stepped or slewed hard moves against the monotonic one."""
    clock = system_clock()
    before_ms = clock.now_ms() - clock.monotonic_ms()
    threading.Event().wait(CLOCK_WATCHED_S)
    moved_ms = clock.now_ms() - clock.monotonic_ms() - before_ms - clock.behind_ms()
    if abs(moved_ms) > CLOCK_WARN_MS:
        text = f"moved by {moved_ms} ms within {CLOCK_WATCHED_S * 1000:.0f} ms"
        yield Finding("clock", Level.WARN, text, "Is something setting the clock? NTP should slew it.")
    else:
        yield Finding("clock", Level.OK, "steady against the monotonic clock")


def _port(settings: Settings) -> Iterator[Finding]:
    """The port, and those where each of several processes answers alone, if something is wrong with them."""
    yield from _one_port(settings)
    if settings.processes > 1 and settings.port:
        for number in range(1, settings.processes + 1):
            found = _one_port(replace(settings, port=settings.port + number))
            yield from (finding for finding in found if finding.level is not Level.OK)


def _one_port(settings: Settings) -> Iterator[Finding]:
    where = f"{settings.host}:{settings.port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            yield _taken(settings, where)
        else:
            yield Finding("port", Level.FAIL, f"{where}: {error.strerror or error}", "See --host and --port.")
    else:
        yield Finding("port", Level.OK, f"{where} is free")


def _taken(settings: Settings, where: str) -> Finding:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - asked, not bound
    if settings.tls_cert and shows_certificate(settings, host, PROBE_SECONDS):
        return Finding("port", Level.OK, f"a server with this certificate answers at {where}")
    host = f"[{host}]" if ":" in host else host
    try:
        with Client(f"http://{host}:{settings.port}", timeout_seconds=PROBE_SECONDS) as client:
            health = client.health()
    except TickwheelError:
        return Finding("port", Level.FAIL, f"{where} is taken by another program", "Choose another with --port.")
    return Finding("port", Level.OK, f"Tickwheel {health.version} answers at {where}")


def _handlers(settings: Settings) -> Iterator[Finding]:
    if not settings.app:
        yield Finding("handlers", Level.OK, "none asked for (--app names a module with Python handlers)")
        return
    try:
        names = handler_names(settings.app)
    except TickwheelError as error:
        yield Finding("handlers", Level.FAIL, str(error))
    else:
        yield Finding("handlers", Level.OK, f"{len(names)} in {settings.app}: {', '.join(names)}")
