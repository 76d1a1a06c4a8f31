"""Makes a restored database, or a standby that lost commits, safe to use.

What was forgotten may include takeovers: their epochs would be given out again, and two attempts of a job would
carry one token. So all epochs rise further than any number of takeovers that can have been lost (D8). Nodes of
before may claim no more. And all pairs of (ack, snapshot) are voided, so that the next owners load everything:
transaction ids of a copy need not be those of the original.
"""

from typing import Final

from tickwheel.adapters.postgresql.admission import VISITOR, visit
from tickwheel.adapters.postgresql.migrate import Connection, unapplied
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.run import EPOCH_LEAP

_CONNECTED: Final = """SELECT count(*), string_agg(DISTINCT coalesce(host(client_addr), 'a local socket'), ', ')
  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND application_name LIKE 'tickwheel %%' AND application_name <> %s"""
_STEPS: Final = (
    "UPDATE tickwheel.nodes SET deposed = true WHERE NOT deposed",
    "DELETE FROM tickwheel.shard_acks",
)


def after_restore(url: str) -> None:
    """All in one transaction; again: epochs rise once more. Raises `ConfigError` while nodes are connected."""
    with visit(url) as connection:
        if unapplied(connection):
            raise _wrong("its schema is not up to date: run `tickwheel migrate` first", "schema_behind")
        _refuse_running_nodes(connection)
        with connection.transaction():
            for step in _STEPS:
                connection.execute(step.encode())
            connection.execute("UPDATE tickwheel.shards SET epoch = epoch + %s, owner = NULL", (EPOCH_LEAP,))


def _refuse_running_nodes(connection: Connection) -> None:
    count, places = connection.execute(_CONNECTED.encode(), (VISITOR,)).fetchall()[0]
    if count:
        raise _wrong(
            f"nodes are connected to it ({count} connections from {places}): stop all of them first, since epochs "
            "must rise before anybody claims",
            "nodes_running",
        )


def _wrong(message: str, code: str) -> ConfigError:
    return ConfigError([FieldProblem("store", message, code)])
