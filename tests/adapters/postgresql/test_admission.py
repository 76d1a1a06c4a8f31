"""What a node refuses at the start, each with its remedy; passwords are never shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tickwheel.adapters.postgresql import admission
from tickwheel.adapters.postgresql.admission import Admitted, admit
from tickwheel.adapters.postgresql.migrate import known_migrations, migrate
from tickwheel.domain.errors import ConfigError, StoreUnavailable, TickwheelError

from ...servers.postgresql import (
    PostgresServer,
)

SECRET = "pass@word/of?ours"


def enter(url: str, *, cluster: str = "tickwheel", auto_migrate: bool = True) -> Admitted:
    return admit(url, cluster=cluster, auto_migrate=auto_migrate)


def refusal(url: str, *, cluster: str = "tickwheel", auto_migrate: bool = True) -> str:
    """The message of the refusal: one paragraph without a password."""
    with pytest.raises(TickwheelError) as caught:
        enter(url, cluster=cluster, auto_migrate=auto_migrate)
    assert isinstance(caught.value, ConfigError | StoreUnavailable)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert quote(SECRET, safe="") not in message
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)
    return message


@pytest.fixture
def user(postgresql: PostgresServer, blank_postgresql: str) -> Iterator[str]:
    """The URL of the database for a user who may only connect."""
    postgresql.execute(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
    database = blank_postgresql.rpartition("/")[2]
    yield postgresql.url(database, user="guest").replace("guest@", f"guest:{quote(SECRET, safe='')}@")
    postgresql.execute("DROP OWNED BY guest", database=database)
    postgresql.execute("DROP ROLE guest")


@pytest.fixture
def empty(blank_postgresql: str) -> str:
    return blank_postgresql


@pytest.fixture
def migrated(blank_postgresql: str) -> str:
    migrate(blank_postgresql)
    return blank_postgresql


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_new_database_gets_tables_and_the_clusters_name(empty: str) -> None:
    assert enter(empty, cluster="blue").applied == tuple(step.label for step in known_migrations())
    assert enter(empty, cluster="blue").applied == ()


def test_two_clusters_on_one_database_are_refused(empty: str) -> None:
    enter(empty, cluster="blue")
    message = refusal(empty, cluster="green")
    assert "belongs to the cluster 'blue', this node to 'green'" in message
    assert "--cluster blue" in message


def test_first_nodes_that_start_at_once_all_get_in(empty: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        admitted = list(threads.map(lambda _: enter(empty, cluster="blue"), range(6)))
    assert sorted(len(one.applied) for one in admitted) == [0] * 5 + [len(known_migrations())]


def test_another_number_of_shards_is_refused(migrated: str) -> None:
    execute(migrated, "UPDATE tickwheel.meta SET shard_count = 64")
    message = refusal(migrated)
    assert "made for 64 shards, this program has 256" in message
    assert "new one" in message


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://a@127.0.0.1:1/x", ["nothing listens there", "--store"]),
        ("postgresql://a@there-is-none.invalid/x", ["no such host"]),
        ("postgresql://a@127.0.0.1:port/x", ["port"]),
        ("postgresql://127.0.0.1/x?no_such_option=1", ["no address of a database", "no_such_option"]),
    ],
)
def test_addresses_where_no_database_is_are_refused(address: str, words: list[str]) -> None:
    address = address.replace("a@", f"a:{quote(SECRET, safe='')}@")
    message = refusal(address)
    assert all(word in message for word in words), message


def test_a_missing_database_is_refused(postgresql: PostgresServer) -> None:
    message = refusal(postgresql.url("nowhere"))
    assert "no such database: create it" in message
    assert "nowhere" in message


def test_a_missing_user_is_refused(postgresql: PostgresServer) -> None:
    assert "no such user" in refusal(postgresql.url("postgres", user="nobody_here"))


def test_a_wrong_password_is_refused_and_not_shown() -> None:
    with PostgresServer() as server:
        server.execute("CREATE ROLE app LOGIN PASSWORD 'right'")
        rules = Path(server.data / "pg_hba.conf")
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n")
        server.execute("SELECT pg_reload_conf()")
        url = server.url(user="app")
        assert "password" in refusal(url.replace("app@", f"app:{quote(SECRET, safe='')}@"))
        assert "PGPASSFILE" in refusal(url)


def test_a_user_who_may_create_nothing_is_refused(user: str) -> None:
    message = refusal(user)
    assert "GRANT CREATE ON DATABASE" in message
    assert '"guest"' in message


def test_a_user_without_rights_on_the_tables_is_refused(user: str, blank_postgresql: str) -> None:
    migrate(blank_postgresql)
    assert "GRANT CREATE ON SCHEMA tickwheel" in refusal(user)
    execute(blank_postgresql, "GRANT USAGE, CREATE ON SCHEMA tickwheel TO guest")
    assert "permission denied for table migrations" in refusal(user)
    execute(blank_postgresql, "GRANT SELECT ON ALL TABLES IN SCHEMA tickwheel TO guest")
    message = refusal(user)
    assert "INSERT on " in message
    assert "and " in message
    assert 'TO "guest"' in message
    execute(blank_postgresql, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tickwheel TO guest")
    assert "does not own the partitioned tables" in refusal(user)


def test_the_user_who_made_the_tables_needs_no_more_than_that(user: str, blank_postgresql: str) -> None:
    database = blank_postgresql.rpartition("/")[2]
    execute(blank_postgresql, f"GRANT CREATE ON DATABASE {database} TO guest")
    assert enter(user).applied
    execute(blank_postgresql, f"REVOKE CREATE ON DATABASE {database} FROM guest")
    assert enter(user).applied == (), "only the first start needs the right"


def test_a_schema_of_a_newer_program_that_breaks_this_one_is_refused(migrated: str) -> None:
    execute(migrated, "INSERT INTO tickwheel.migrations (version, phase, name) VALUES (9000, 'post', 'later')")
    message = refusal(migrated)
    assert "9000" in message
    assert "newer program" in message


def test_a_newer_schema_that_only_adds_is_used(migrated: str) -> None:
    execute(migrated, "INSERT INTO tickwheel.migrations (version, phase, name) VALUES (9000, 'pre', 'later')")
    enter(migrated)


def test_an_older_schema_is_refused_where_nothing_may_be_migrated(empty: str) -> None:
    message = refusal(empty, auto_migrate=False)
    assert "run `tickwheel migrate`" in message
    migrate(empty)
    enter(empty, auto_migrate=False)


def test_an_old_server_is_refused(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "OLDEST_VERSION", 99)
    assert "99 or newer is needed: upgrade it" in refusal(migrated)


def test_a_standby_is_refused_though_it_can_be_read() -> None:
    with PostgresServer() as primary:
        migrate(primary.url())
        standby = primary.add_standby(synchronous=False)
        try:
            message = refusal(standby.url())
        finally:
            standby.close()
    assert "is a standby" in message
    assert "target_session_attrs=read-write" in message


def test_a_read_only_database_is_refused(migrated: str) -> None:
    database = migrated.rpartition("/")[2]
    execute(migrated, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert "read-only" in refusal(migrated)


def test_another_encoding_is_refused(postgresql: PostgresServer) -> None:
    postgresql.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        message = refusal(postgresql.url("latin"))
    finally:
        postgresql.drop_database("latin")
    assert "LATIN1" in message
    assert "ENCODING 'UTF8'" in message


def test_settings_that_risk_data_are_warned_about_only(migrated: str) -> None:
    database = migrated.rpartition("/")[2]
    execute(migrated, f"ALTER DATABASE {database} SET synchronous_commit = off")
    warnings = enter(migrated).warnings
    assert any("fsync is off" in text for text in warnings), "the servers of the tests have it off"
    assert any("synchronous_commit is off" in text for text in warnings)
