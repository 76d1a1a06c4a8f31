"""The page about the receiver says what the code does."""

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import tickwheel.receiver
from tickwheel.receiver import POSTGRESQL_SCHEMA, SQLITE_SCHEMA, Reason
from tickwheel.receiver.delivery import TOLERANCE_S
from tickwheel.receiver.reception import BODY_LIMIT_BYTES
from tickwheel.receiver.redis_guard import CLAIM_MS, KEEP_MS
from tickwheel.receiver.refusals import RefusedDelivery

from .signing import BODY, SECRET, headers

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "receiver.md").read_text()
ACCOUNT = "CREATE TABLE accounts (id INTEGER, balance INTEGER); INSERT INTO accounts VALUES (1, 10);"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_function_of_the_page_pays_once() -> None:
    namespace: dict[str, Any] = {}
    exec(block("python"), namespace)
    receive: Callable[..., None] = namespace["receive"]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SQLITE_SCHEMA + ACCOUNT)
        for token in (5, 6, 4, 5):
            receive(connection, headers(1, token, sent_s=int(time.time())), BODY, SECRET)
        assert connection.execute("SELECT balance FROM accounts").fetchone() == (15,)
        receive(connection, headers(2, 7, sent_s=int(time.time())), BODY, SECRET)
        assert connection.execute("SELECT balance FROM accounts").fetchone() == (20,)


def test_the_table_of_the_page_is_the_schema() -> None:
    table = re.sub(r"  --.*", "", POSTGRESQL_SCHEMA).partition("CREATE INDEX")[0]
    assert [line.rstrip() for line in table.splitlines()] == block("sql").splitlines()


def test_every_reason_stands_beside_its_status() -> None:
    rows = [[cell.strip() for cell in line.split("|")[2:4]] for line in PAGE.splitlines() if line.startswith("|")]
    told = {
        reason: int(cells[1][:3])
        for cells in rows
        for reason in re.findall(r"`(\w+)`", cells[0])
        if cells[1][:3].isdigit()
    }
    assert told == {reason.value: RefusedDelivery(reason, "").status for reason in Reason}


def test_every_public_name_is_explained() -> None:
    unknown = [name for name in tickwheel.receiver.__all__ if not re.search(rf"`{name}\b", PAGE)]
    assert unknown == []


def test_limits_are_those_of_the_code() -> None:
    for text in (
        *(f"body_limit_bytes={BODY_LIMIT_BYTES}", f"tolerance_s={TOLERANCE_S}"),
        *(f"claim_ms={CLAIM_MS}", f"keep_ms={KEEP_MS}"),
    ):
        assert text in PAGE
