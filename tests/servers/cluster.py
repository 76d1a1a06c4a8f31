"""Nodes on one PostgreSQL, each of which can be killed, frozen, or cut off from the store or from everybody.

    with Cluster(folder, nodes=3) as cluster:
        cluster.start()
        cluster.nodes[0].kill()
        cluster.cut_store(1); cluster.heal(1)

In a private network (see `private_network`, entered by the caller before threads are started) packets are dropped;
elsewhere each node reaches the store through a proxy of its own, and `cut_all` cuts the store only.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from .postgresql import PostgresServer
from .private_network import FIRST_GROUP, Firewall
from .proxy import Proxy
from .serve import Serve, start_all

DATABASE = "cluster"


class Cluster:
    """`server` is the database server, `nodes` the processes; nothing runs before `start` but the server."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        flags: Sequence[str] = (),
        private_network: bool = False,
        settings: Mapping[str, str] | None = None,
        server: PostgresServer | None = None,
    ) -> None:
        self._folder, self._count, self._flags = folder, nodes, flags
        self._private = private_network
        self.server = server or PostgresServer(settings=settings)
        self._stack = ExitStack()
        self.nodes: list[Serve] = []
        self.proxies: list[Proxy] = []
        self._firewall: Firewall | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.server.process is None:
            self._stack.enter_context(self.server)
        self.server.create_database(DATABASE)
        groups = [FIRST_GROUP + number for number in range(self._count)]
        if self._private:
            self._firewall = Firewall(groups, self.server.port)
        for number, group in enumerate(groups):
            store = self.server.url(DATABASE)
            if not self._private:
                self.proxies.append(self._stack.enter_context(Proxy(self.server.port)))
                store = store.replace(f":{self.server.port}/", f":{self.proxies[-1].port}/")
            node = Serve(
                self._folder,
                *self._flags,
                store=store,
                name=f"node-{number}",
                group=group if self._private else None,
            )
            self.nodes.append(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            if node.runs:
                node.kill()
        self._stack.close()

    @property
    def ports(self) -> list[int]:
        """Of the nodes' APIs."""
        return [node.port for node in self.nodes]

    def start(self) -> None:
        """The first one makes the tables."""
        start_all(self.nodes[:1])
        start_all(self.nodes[1:])

    def cut_store(self, number: int) -> None:
        """Nothing passes between that node and the store; connections stay open."""
        if self._firewall is not None:
            self._firewall.cut_store(FIRST_GROUP + number)
        else:
            self.proxies[number].swallow()

    def cut_all(self, number: int) -> None:
        """Nobody reaches that node and it reaches nobody."""
        if self._firewall is not None:
            self._firewall.cut_all(FIRST_GROUP + number)
        else:
            self.proxies[number].swallow()

    def heal(self, number: int) -> None:
        """End what `cut_store` and `cut_all` did."""
        if self._firewall is not None:
            self._firewall.heal(FIRST_GROUP + number)
        else:
            self.proxies[number].heal()

    def heal_all(self) -> None:
        """Every network is whole, the server and every node run and are ready."""
        if self.server.process is None:
            self.server.start()
        self.server.thaw()
        for number, node in enumerate(self.nodes):
            self.heal(number)
            if node.frozen:
                node.thaw()
            if not node.runs:
                node.start()
        for node in self.nodes:
            node.wait_until_ready()

    def incarnation_number(self, node: Serve) -> int | None:
        """What stands for the node's process in the ledger; its process id is part of its incarnation."""
        statement = "SELECT max(number) FROM tickwheel.nodes WHERE incarnation LIKE %s"
        rows = self.server.execute(statement, f"%-{node.pid}-%", database=DATABASE)
        return None if rows[0][0] is None else int(rows[0][0])

    def is_deposed(self, number: int) -> bool:
        """Whether no claim of that incarnation commits any more."""
        statement = "SELECT deposed FROM tickwheel.nodes WHERE number = %s"
        return bool(self.server.execute(statement, number, database=DATABASE)[0][0])
