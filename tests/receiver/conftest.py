"""Places for effects, one per kind of connection."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .places import (
    AlchemyPlace,
    AsyncAlchemyPlace,
    AsyncpgPlace,
    AsyncPsycopgPlace,
    AsyncRedisPlace,
    BlockingPlace,
    Place,
    PsycopgOfDicts,
    PsycopgPlace,
    RedisPlace,
    SqlitePlace,
)

BLOCKING = (
    *("sqlite", "psycopg", "psycopg_autocommit", "psycopg_dicts", "sqlalchemy_sqlite", "sqlalchemy_psycopg"),
    *("redis", "redis_decoding"),
)
AWAITING = ("async_psycopg", "asyncpg", "async_sqlalchemy", "async_redis")
ON_POSTGRESQL = ("psycopg", "asyncpg", "async_psycopg", "async_sqlalchemy", "sqlalchemy_psycopg")


def make_place(kind: str, folder: Path, url: str) -> Place:
    match kind:
        case "sqlite":
            return SqlitePlace(folder)
        case "psycopg":
            return PsycopgPlace(url)
        case "psycopg_autocommit":
            return PsycopgPlace(url, autocommit=True)
        case "psycopg_dicts":
            return PsycopgOfDicts(url)
        case "sqlalchemy_sqlite":
            return AlchemyPlace(f"sqlite:///{folder / 'effects.db'}")
        case "sqlalchemy_psycopg":
            PsycopgPlace(url)
            return AlchemyPlace(url.replace("postgresql:", "postgresql+psycopg:"))
        case "redis":
            return RedisPlace()
        case "redis_decoding":
            return RedisPlace(decode_responses=True)
        case "async_psycopg":
            return AsyncPsycopgPlace(PsycopgPlace(url))
        case "asyncpg":
            return AsyncpgPlace(PsycopgPlace(url))
        case "async_sqlalchemy":
            return AsyncAlchemyPlace(PsycopgPlace(url))
        case "async_redis":
            return AsyncRedisPlace(RedisPlace())
    raise NotImplementedError(kind)


def _url(kind: str, request: pytest.FixtureRequest) -> str:
    on_postgresql = "psycopg" in kind or kind in ON_POSTGRESQL
    return str(request.getfixturevalue("blank_postgresql")) if on_postgresql else ""


@pytest.fixture(params=[*BLOCKING, *AWAITING])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = make_place(request.param, tmp_path, _url(request.param, request))
    yield made
    inner = made.beside if hasattr(made, "beside") else made
    if isinstance(inner, RedisPlace):
        inner.client.close()


@pytest.fixture(params=["sqlite", "psycopg", "sqlalchemy_psycopg"])
def sql_place(request: pytest.FixtureRequest, tmp_path: Path) -> BlockingPlace:
    made = make_place(request.param, tmp_path, _url(request.param, request))
    assert isinstance(made, BlockingPlace)
    return made


@pytest.fixture(params=["sqlite", "psycopg", "redis"])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingPlace]:
    """One that many threads may use."""
    made = make_place(request.param, tmp_path, _url(request.param, request))
    assert isinstance(made, BlockingPlace)
    yield made
    if isinstance(made, RedisPlace):
        made.client.close()
