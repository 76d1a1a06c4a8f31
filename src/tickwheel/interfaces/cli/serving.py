"""The HTTP server of a process, as its settings want it."""

import resource
import socket
from typing import Final

from starlette.types import ASGIApp

from tickwheel.config import Settings
from tickwheel.interfaces.http.room import RoomLimits
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.interfaces.http.tls import Certificates, TlsFiles
from tickwheel.wiring import system_clock

HTTP_STOP_SECONDS: Final = 1


def tls_files(settings: Settings) -> TlsFiles | None:
    """None: plain HTTP."""
    if not settings.tls_cert:
        return None
    return TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_key_password, settings.tls_client_ca)


def open_certificates(settings: Settings) -> Certificates | None:
    """What new connections are served with; None: plain HTTP. Raises `ConfigError` where the files won't do."""
    files = tls_files(settings)
    return None if files is None else Certificates(files, system_clock().now_ms)


def build_server(
    app: ASGIApp, settings: Settings, certificates: Certificates | None, own: socket.socket | None
) -> HttpServer:
    """Not started yet. It keeps as many connections as it should, or fewer where files are scarce."""
    files_count, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = RoomLimits(settings.connections, settings.connections_per_address)
    if files_count != resource.RLIM_INFINITY:
        limits = limits.within(files_count, settings.webhook_slots)
    return HttpServer(
        app,
        settings.host,
        settings.port,
        drain_seconds=HTTP_STOP_SECONDS,
        own=own,
        limits=limits,
        certificates=certificates,
        request_limit_s=settings.request_seconds,
    )
