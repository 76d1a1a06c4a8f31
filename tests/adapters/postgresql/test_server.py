"""The server that the other tests stand on: what is committed survives kill -9, a standby can take over."""

import psycopg

from ...servers.postgresql import PostgresServer


def test_commits_survive_a_killed_server_and_its_standby_takes_over() -> None:
    with PostgresServer() as server:
        server.create_database("kept")
        server.execute("CREATE TABLE kept AS SELECT 1 AS number", database="kept")
        server.kill()
        server.start()
        standby = server.add_standby()
        try:
            server.execute("INSERT INTO kept VALUES (2)", database="kept")
            server.kill()
            standby.promote()
            standby.execute("INSERT INTO kept VALUES (3)", database="kept")
            rows = standby.execute("SELECT number FROM kept ORDER BY number", database="kept")
        finally:
            standby.close()
    assert rows == [(1,), (2,), (3,)]


def test_each_test_gets_an_empty_database(blank_postgresql: str) -> None:
    with psycopg.connect(blank_postgresql) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
