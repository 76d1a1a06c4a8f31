"""`tickwheel worker`: executes runs for a server or a store elsewhere."""

from typing import Any, Final

import click
from click.core import ParameterSource

from tickwheel.config import ENV_PREFIX, MAX_PORT, Settings, WorkerOptions, setting_default
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.interfaces.cli.settings_options import ALL, read_settings, settings_options
from tickwheel.interfaces.cli.trust_options import pop_trust, trust_options
from tickwheel.interfaces.worker.concurrency import parse_concurrency
from tickwheel.interfaces.worker.own_tenant import find_tenant_problem

SHARED: Final = (
    "app",
    "store",
    "queue",
    "lease_cache",
    "cluster",
    "host",
    "advertise",
    "allow_loopback",
    "allow_private",
    "nat64_prefix",
    "webhook_ports",
    "egress_proxy",
    "egress_proxy_resolves",
    "webhook_host_limit",
    "webhook_secret",
    "secrets_key",
    "secrets_key_file",
    "secrets_key_command",
    "lease_seconds",
    "grace_seconds",
    "log_format",
    "log_level",
)
"""Settings of servers that workers have too."""
LEFT_OUT: Final = tuple(name for name in ALL if name not in SHARED)
OF_STORE: Final = (
    "store",
    "queue",
    "lease_cache",
    "cluster",
    "advertise",
    "secrets_key",
    "secrets_key_file",
    "secrets_key_command",
)
"""Of these, the ones that mean nothing to a worker over HTTP."""
DEFAULT_CONCURRENCY: Final = "10"


@click.command(
    epilog="\b\nExamples:\n"
    "  tickwheel worker --server http://127.0.0.1:8080 --app app:app\n"
    "  tickwheel worker --server https://node-1 --server https://node-2 --app app --concurrency 5..200\n"
    "  tickwheel worker --store postgresql:///jobs --app app:app --webhooks\n"
    "  tickwheel worker --server http://127.0.0.1:8080 --app app:app --reload"
)
@click.option(
    "--server",
    envvar=f"{ENV_PREFIX}SERVER",
    show_envvar=True,
    multiple=True,
    metavar="URL",
    help="Take work from this server over HTTP; several are nodes of one cluster, whichever answers.",
)
@click.option(
    "--token",
    envvar=f"{ENV_PREFIX}TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help="Bearer token for the server. Better set the variable: others on this machine can read command lines.",
)
@trust_options
@click.option(
    "--concurrency",
    envvar=f"{ENV_PREFIX}CONCURRENCY",
    show_envvar=True,
    default=DEFAULT_CONCURRENCY,
    show_default=True,
    metavar="N|MIN..MAX",
    help="Runs at a time; of a range the worker finds the best number by how long runs take.",
)
@click.option(
    "--prefetch",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="Runs to take ahead of free slots (default: 0 while runs are long, some while they are short).",
)
@click.option("--webhooks", is_flag=True, help="Make webhooks too, not only handlers.")
@click.option("--name", metavar="TEXT", help="The worker's name in lists and logs (default: machine and process).")
@click.option(
    "--tenant", metavar="ID", help="With a store: get runs of this tenant only. A token says it by itself."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, MAX_PORT),
    metavar="PORT",
    help="Show /metrics for Prometheus on this port of --host (0: a free one). It asks for no token.",
)
@click.option("--reload", is_flag=True, help="Start again whenever a .py file under this folder changes.")
@settings_options(leave_out=LEFT_OUT)
@click.pass_context
def worker(context: click.Context, /, reload: bool, **given: Any) -> None:
    """Execute runs, on any machine and in any number.

    It takes runs of the handlers that --app brings (and webhooks with --webhooks), from a server over HTTP
    (--server), or inside the trust zone straight from the PostgreSQL store and its queue (--store, --queue), as
    `tickwheel serve` has them. SIGTERM drains: running work gets the grace time, the rest is handed back.

    With the token of a tenant, or with --store and --tenant, it gets runs of that tenant and no others, and as
    long as it is there nobody else gets those.

    A worker that dies loses nothing: its runs start elsewhere, within two seconds where its connection breaks. On
    SQLite a worker and its server talk over HTTP.
    """
    options, settings = read_options(context, given)
    if reload:
        from tickwheel.interfaces.cli.reloading import run_reloading

        run_reloading()
        return
    from tickwheel.interfaces.cli.worker_process import run_worker

    run_worker(settings, options)


def read_options(context: click.Context, given: dict[str, Any]) -> tuple[WorkerOptions, Settings]:
    """What is asked for. Raises `ConfigError` with every problem."""
    problems: list[FieldProblem] = []
    servers = tuple(given["server"])
    # What the environment or a file says is there for other commands, too: only what is asked for contradicts.
    asked = [name for name in OF_STORE if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if asked and context.get_parameter_source("server") is ParameterSource.ENVIRONMENT:
        servers = ()
    unused = {name: setting_default(name) for name in (*LEFT_OUT, *OF_STORE)} if servers else {}
    if servers:
        message = "doesn't go with --server: it is for workers that take their work from the store"
        problems += [FieldProblem(f"--{name.replace('_', '-')}", message) for name in asked]
    tenant_problem = find_tenant_problem(servers, given["tenant"])
    if tenant_problem is not None:
        problems.append(FieldProblem("--tenant", tenant_problem))
    trust = pop_trust(given, problems)
    low, high = parse_concurrency(given["concurrency"], problems, "--concurrency")
    token = (given["token"] or "").split(",")[0].strip()  # the server's variable may hold several
    if not token.isprintable() or not token.isascii():
        problems.append(FieldProblem("--token", "holds characters that no token has"))
    try:
        settings = read_settings(context, {"token": (), **unused})
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
    if not servers and not settings.store:
        message = (
            "is missing: name where work comes from (--server http://127.0.0.1:8080 or --store postgresql://…)"
        )
        problems.append(FieldProblem("--server", message))
    if not settings.app and not given["webhooks"]:
        message = "is missing: name the module with your handlers (--app app:app), or make webhooks (--webhooks)"
        problems.append(FieldProblem("--app", message))
    if problems:
        raise ConfigError(problems)
    options = WorkerOptions(
        servers=servers,
        token=token or None,
        trust=trust,
        name=given["name"] or "",
        low=low,
        high=high,
        prefetch=given["prefetch"],
        webhooks=given["webhooks"],
        tenant_id=given["tenant"],
        metrics_port=given["metrics_port"],
    )
    return options, settings
