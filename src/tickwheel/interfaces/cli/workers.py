"""`tickwheel workers`: who executes runs elsewhere."""

import click

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.output import print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import LiveWorker, WorkerList


@click.command()
@server_options
def workers(api: Api) -> None:
    """List the live workers.

    A worker is a process apart from the server that executes runs: over HTTP, or with the database itself (VIA).
    Nodes that execute runs themselves are no workers. One that was silent for 15 s is gone. A worker of a TENANT
    gets runs of that tenant only, others serve all (*). --tenant shows a tenant's own.
    """
    api.show(calls.list_workers(api.tenant), _show)


def _show(found: WorkerList) -> None:
    print_table(
        ("WORKER", "NAME", "TENANT", "VIA", "BUSY", "STATE", "SEEN", "SERVES"),
        [
            (
                w.worker_id,
                w.name,
                "*" if w.tenant_id is None else w.tenant_id,
                w.via,
                f"{w.busy}/{w.slots}",
                _state(w),
                short(w.seen_at),
                _serves(w),
            )
            for w in found.workers
        ],
        empty="There is no worker.",
    )


def _state(worker: LiveWorker) -> str:
    if worker.stalled:
        return "stalled"
    return "draining" if worker.draining else "ready"


def _serves(worker: LiveWorker) -> str:
    return ", ".join([*worker.handlers, *(["webhooks"] if worker.webhooks else [])])
