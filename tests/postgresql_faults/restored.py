"""A PostgreSQL server that begins as a base backup and an archive of WAL, recovered up to an instant."""

import shutil
from pathlib import Path

from ..servers.postgresql import UNPRIVILEGED, PostgresServer
from ..servers.waiting import wait_until

RECOVERY_S = 60


def make_archive(server: PostgresServer) -> Path:
    """A folder in which the server, which is not started yet, will keep each piece of its WAL."""
    archive = server.folder / "archive"
    archive.mkdir()
    _give_away(archive)
    server.settings |= {"archive_mode": "on", "archive_command": f"test ! -f {archive}/%f && cp %p {archive}/%f"}
    return archive


def back_up(server: PostgresServer) -> Path:
    """A base backup of the running server."""
    backup = server.folder / "backup"
    source = f"host=127.0.0.1 port={server.port} user=postgres"
    server._run("pg_basebackup", "-D", backup, "-d", source, "-X", "none", "-c", "fast", "-N", "--no-manifest")
    return backup


def archive_all(server: PostgresServer) -> None:
    """End the current piece of WAL and wait until it is in the archive."""
    [(piece,)] = server.execute("SELECT pg_walfile_name(pg_switch_wal())")
    statement = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
    wait_until(lambda: bool(server.execute(statement, piece)[0][0]), RECOVERY_S, f"{piece} is archived")


class RestoredServer(PostgresServer):
    """Takes writes when `with` has been entered."""

    def __init__(self, backup: Path, archive: Path, until: str) -> None:
        settings = {
            "restore_command": f"cp {archive}/%f %p",
            "recovery_target_time": until,
            "recovery_target_action": "promote",
        }
        super().__init__(settings=settings)
        self._backup = backup

    def init(self) -> None:
        shutil.copytree(self._backup, self.data)
        self.data.chmod(0o700)
        (self.data / "recovery.signal").touch()
        for path in (self.data, *self.data.rglob("*")):
            _give_away(path)

    def start(self) -> None:
        super().start()
        wait_until(
            lambda: not self.execute("SELECT pg_is_in_recovery()")[0][0], RECOVERY_S, "the recovery has ended"
        )


def _give_away(path: Path) -> None:
    if UNPRIVILEGED:
        shutil.chown(path, UNPRIVILEGED["user"], UNPRIVILEGED["group"])
