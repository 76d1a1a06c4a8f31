"""Commands that work on a store leave entries in its audit log: the command line did it, and whose."""

import asyncio
import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import Result

from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.adapters.system import SystemClock
from tickwheel.interfaces.cli.main import cli
from tickwheel.ports.registry import AuditEntry, AuditLogQuery

Call = Callable[..., Result]
NOTED: Final = {
    "tokens create": "token.create",
    "tokens rotate": "token.rotate",
    "tokens revoke": "token.revoke",
    "secrets create": "secret.create",
    "secrets rotate": "secret.rotate",
    "secrets delete": "secret.delete",
    "tenants set": "tenant.put",
    "tenants delete": "tenant.delete",
    "secrets reseal": "secret.reseal",
}
"""What it says they did. `reseal` is noted where something was sealed anew; tests/services has that."""
NOTHING_TO_NOTE: Final = {
    "tokens list": "it reads",
    "secrets list": "it reads",
    "tenants list": "it reads",
    "tenants show": "it reads",
    "tenants usage": "it reads",
    "audit": "it reads",
    "doctor": "it reads",
    "migrate": "it changes how things are stored, and none of them",
    "dev": "requests are noted",
    "serve": "requests are noted",
    "worker": "attempts are in the ledger",
}


def commands(group: click.Group, *path: str) -> Iterator[str]:
    """Those that can be told which store to work on."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif any(parameter.name == "store" for parameter in command.params):
            yield " ".join((*path, name))


def test_each_command_that_may_change_a_store_is_known() -> None:
    found = {name for name in commands(cli) if not name.startswith("bench ")}
    assert found == NOTED.keys() | NOTHING_TO_NOTE.keys()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def noted(data: Path) -> list[AuditEntry]:
    """The store's entries, oldest first."""

    async def read() -> list[AuditEntry]:
        store = await open_sqlite_store(data, SystemClock())
        page = await store.audit_log(AuditLogQuery(None, 100))
        await store.aclose()
        return list(reversed(page.items))

    return asyncio.run(read())


def test_what_they_change_is_noted_and_no_secret_is(call: Call, data: Path) -> None:
    where = ("--data", str(data))
    outputs: list[str] = []

    def run(*words: str) -> str:
        result = call(*words, *where)
        assert result.exit_code == 0, result.output
        outputs.append(result.stdout)
        return result.stdout.splitlines()[0]

    token_id = run("tokens", "create", "--role", "reader", "--tenant", "shop").split("_")[1]
    run("tokens", "rotate", token_id)
    run("tokens", "revoke", token_id)
    run("secrets", "create", "billing", "--tenant", "shop")
    run("secrets", "rotate", "billing", "--tenant", "shop")
    run("secrets", "delete", "billing", "--tenant", "shop")
    run("tenants", "set", "shop", "--max-jobs", "9")
    run("tenants", "delete", "shop")
    entries = noted(data)
    assert [entry.action for entry in entries] == [*NOTED.values()][:8]
    assert {(entry.actor, entry.source, entry.tenant_id) for entry in entries} == {
        (f"cli:{getpass.getuser()}", "", "shop")
    }
    secrets = [line.rpartition("_")[2] for output in outputs for line in output.splitlines() if "_" in line]
    assert len(secrets) >= 4
    assert not [secret for secret in secrets if secret in repr(entries)]


def test_what_only_reads_or_fails_is_not_noted(call: Call, data: Path) -> None:
    where = ("--data", str(data))
    assert call("tokens", "create", "--role", "reader", *where).exit_code == 0
    before = noted(data)
    for words in (
        ("tokens", "list"),
        ("secrets", "list"),
        ("audit",),
        ("migrate",),
        ("tokens", "revoke", "nobody"),
    ):
        call(*words, *where)
    assert noted(data) == before
