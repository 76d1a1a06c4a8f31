"""What texts must look like, and which settings go together."""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

from tickwheel.config.jwt_rules import check_jwt
from tickwheel.config.notification_rules import check_notifications
from tickwheel.config.rates import handler_rates, host_rates
from tickwheel.config.secret_keys import parse_secret_key, without_repetitions
from tickwheel.config.settings import (
    ALL_ROLES,
    CLUSTER_SCHEMES,
    DEFAULT_CLUSTER,
    LOOPBACK_HOSTS,
    MAX_PORT,
    Role,
    Settings,
    Wrong,
)
from tickwheel.config.tls_rules import check_tls
from tickwheel.config.trace_rules import check_traces
from tickwheel.domain.egress_proxy import read_proxies
from tickwheel.domain.errors import FieldProblem
from tickwheel.domain.nat64 import read_prefixes
from tickwheel.domain.slo import check_names, parse_objectives
from tickwheel.domain.webhook_ports import read_ports

SHORTEST_TOKEN_CHARS: Final = 16
EMBEDDED_SCHEMES: Final = ("sqlite", "memory")
STORE_SCHEMES: Final = (*EMBEDDED_SCHEMES, *sorted(CLUSTER_SCHEMES, reverse=True))
COORDINATOR_SCHEMES: Final = ("postgresql", "postgres", "etcd", "etcds", "consul", "consuls")
QUEUE_SCHEMES: Final = ("memory", "postgresql", "postgres", "redis", "rediss", "redis+cluster", "rediss+cluster")
REDIS_SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_together(settings: Settings, origin: Mapping[str, str], problems: list[FieldProblem]) -> None:
    """Add a problem for each text that is wrong in itself or doesn't go with the others."""

    def wrong(name: str, message: str) -> None:
        problems.append(FieldProblem(field=origin.get(name, name), message=message))

    _check_texts(settings, wrong)
    _check_tokens(settings, wrong)
    check_jwt(settings, wrong)
    check_tls(settings, wrong)
    check_notifications(settings, wrong)
    check_traces(settings, wrong)
    _check_secrets_keys(settings, wrong)
    _check_store(settings, wrong)
    _check_roles(settings, wrong)
    if settings.advertise and settings.loopback_only and settings.advertise not in LOOPBACK_HOSTS:
        wrong("advertise", "others can't reach a node that listens on loopback only; give --host too")
    _check_own_ports(settings, wrong)
    if settings.store.partition(":")[0] in ("", *EMBEDDED_SCHEMES):
        _check_alone(settings, wrong)


def _check_texts(settings: Settings, wrong: Wrong) -> None:
    if not settings.host.strip():
        wrong("host", "must name an address, such as 127.0.0.1 or 0.0.0.0")
    if settings.log_format not in LOG_FORMATS:
        wrong("log_format", f"must be one of {', '.join(LOG_FORMATS)}")
    if settings.log_level not in LOG_LEVELS:
        wrong("log_level", f"must be one of {', '.join(LOG_LEVELS)}")
    if not _CLUSTER_NAME.fullmatch(settings.cluster):
        wrong("cluster", "must be 1 to 63 small letters, digits, - and _, and begin with a letter or digit")
    for network in settings.allow_private:
        try:
            ip_network(network)
        except ValueError:
            wrong("allow_private", f"{network!r} is not a network such as 10.0.0.0/8")
    for name, given, read in (
        ("host_rate", settings.host_rate, host_rates),
        ("queue_rate", settings.queue_rate, handler_rates),
        ("nat64_prefix", settings.nat64_prefix, read_prefixes),
        ("webhook_ports", settings.webhook_ports, read_ports),
        ("egress_proxy", settings.egress_proxy, read_proxies),
        ("slo", settings.slo, parse_objectives),
        ("metrics_tenants", settings.metrics_tenants, check_names),
    ):
        try:
            read(given)
        except ValueError as error:
            wrong(name, str(error))


def _check_tokens(settings: Settings, wrong: Wrong) -> None:
    if not settings.auth and not settings.loopback_only:
        remedy = "leave --no-auth out, or listen on --host 127.0.0.1"
        wrong("auth", f"an open API may listen on loopback only, not on {settings.host}; {remedy}")
    for token in settings.token:
        if len(token) < SHORTEST_TOKEN_CHARS or not token.isascii() or any(c.isspace() for c in token):
            wrong("token", f"a token needs at least {SHORTEST_TOKEN_CHARS} ASCII characters without blanks")
            break


def _check_secrets_keys(settings: Settings, wrong: Wrong) -> None:
    try:
        without_repetitions(map(parse_secret_key, settings.secrets_key))
    except ValueError as error:
        wrong("secrets_key", str(error))


def _check_store(settings: Settings, wrong: Wrong) -> None:
    for name, url, schemes in (
        ("store", settings.store, STORE_SCHEMES),
        ("coordinator", settings.coordinator, COORDINATOR_SCHEMES),
        ("queue", settings.queue, QUEUE_SCHEMES),
        ("buffer", settings.buffer, REDIS_SCHEMES),
        ("key_cache", settings.key_cache, REDIS_SCHEMES),
        ("lease_cache", settings.lease_cache, REDIS_SCHEMES),
    ):
        # Not more than the scheme is shown: the rest may hold a password.
        scheme = url.partition(":")[0]
        if url and scheme not in schemes:
            known = ", ".join(f"{known}:" for known in schemes[:-1])
            shown = repr(scheme) if url != scheme else "what is given"
            wrong(name, f"must start with {known} or {schemes[-1]}:, not {shown}")
    if settings.queue.startswith("memory:") and settings.clustered:
        wrong("queue", "memory: is seen by one process only; leave it out for a queue in the PostgreSQL store")
    if settings.clustered and not _has_authority(settings.store):
        wrong("store", "must look like postgresql://USER@HOST:PORT/DATABASE")
    elif settings.clustered and settings.store.partition("?")[0].count("@") > 1:
        wrong("store", "has more than one @: one in a user or password is written %40, a slash %2F")


def _has_authority(url: str) -> bool:
    """Ports are left to the driver: an address may name several hosts."""
    try:
        return url.partition(":")[2].startswith("//") and urlsplit(url) is not None
    except ValueError:
        return False


def _check_roles(settings: Settings, wrong: Wrong) -> None:
    unknown = [role for role in settings.roles if role not in ALL_ROLES]
    if unknown or not settings.roles:
        given = f", not {unknown[0]!r}" if unknown else ""
        wrong("roles", f"must be one or more of {', '.join(ALL_ROLES)}, separated by commas{given}")
        return
    fires, works = settings.has(Role.SCHEDULER), settings.has(Role.WORKER)
    if works and not fires:
        wrong(
            "roles",
            "a worker without a scheduler is a command of its own: run `tickwheel worker --store …`, or add "
            "scheduler (scheduler,worker)",
        )


def _check_own_ports(settings: Settings, wrong: Wrong) -> None:
    """Each of several processes listens on a port of its own besides, after the one that they share."""
    highest = MAX_PORT - settings.processes
    if settings.processes > 1 and settings.port > highest:
        wrong(
            "port",
            f"must be {highest} at most for {settings.processes} processes: each has one of the ports after it",
        )


def _check_alone(settings: Settings, wrong: Wrong) -> None:
    """An embedded store belongs to one process, which must do everything."""
    remedy = "leave it out, or name a PostgreSQL store (--store postgresql://…)"
    if set(settings.roles) < set(ALL_ROLES):
        wrong("roles", f"an embedded store belongs to one process, so nobody could do the rest; {remedy}")
    if settings.processes > 1:
        wrong("processes", f"an embedded store belongs to one process, not to {settings.processes}; {remedy}")
    if settings.coordinator:
        wrong("coordinator", f"an embedded store has one node only, and nothing to coordinate; {remedy}")
    if settings.queue and not settings.queue.startswith("memory:"):
        wrong("queue", f"an embedded store hands work over in its own process, or over HTTP; {remedy}")
    if settings.history:
        wrong("history", f"an embedded store writes no history files; {remedy}")
    if settings.key_cache:
        wrong("key_cache", f"an embedded store answers faster than a cache would; {remedy}")
    if settings.lease_cache:
        wrong("lease_cache", f"an embedded store has its queue in the same process; {remedy}")
    if settings.store_reads:
        wrong("store_reads", f"an embedded store has no pooler to read through; {remedy}")
    if settings.advertise:
        wrong("advertise", f"an embedded store has one node only, and no others to tell; {remedy}")
    if settings.cluster != DEFAULT_CLUSTER:
        wrong("cluster", f"an embedded store has one node only, which needs no name; {remedy}")
