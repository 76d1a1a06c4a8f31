"""What may be set, with defaults, bounds and one line of explanation each."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, TypeAlias, get_type_hints

from tickwheel.domain.egress_proxy import shown_proxy
from tickwheel.domain.redaction import redacted
from tickwheel.domain.webhook_ports import DEFAULT_PORTS

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT: Final = 8080
MAX_PORT: Final = 65_535
DEFAULT_CLUSTER: Final = "tickwheel"
CLUSTER_SCHEMES: Final = frozenset({"postgresql", "postgres"})


Wrong: TypeAlias = Callable[[str, str], None]
"""Tells of a problem: (setting, what is wrong with it)."""


class Role(StrEnum):
    """What a node does; a symmetric node does everything."""

    API = "api"
    SCHEDULER = "scheduler"
    WORKER = "worker"


DEFAULT_OBJECTIVES: Final = ("CRITICAL=99.9%@500ms", "HIGH=99.9%@1s", "DEFAULT=99%@2s", "LOW=99%@1m")
ALL_ROLES: Final = tuple(role.value for role in Role)


def _setting(
    default: Any, help_text: str, *, low: int | None = None, high: int | None = None, by_comma: bool = False
) -> Any:
    metadata = {"help": help_text, "low": low, "high": high, "by_comma": by_comma}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that an operator may set."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(DEFAULT_PORT, "Port to listen on; 0 takes a free one.", low=0, high=MAX_PORT)
    processes: int = _setting(
        1,
        "Processes that share the port, each a node on the PostgreSQL store; one per core.",
        low=1,
        high=64,
    )
    store: str = _setting(
        "",
        "Where jobs are stored: sqlite:FOLDER, postgresql://… or memory: (default: sqlite in the data folder).",
    )
    data: str = _setting(".tickwheel", "Folder for the data of an embedded store.")
    cluster: str = _setting(
        DEFAULT_CLUSTER, "Name of the cluster, kept in a PostgreSQL store: a node of another one is refused."
    )
    roles: tuple[str, ...] = _setting(
        ALL_ROLES,
        "What a node on PostgreSQL does: api, scheduler and worker, or some of them.",
        by_comma=True,
    )
    tls_cert: str = _setting(
        "", "Certificate to serve over TLS with: a PEM file, read again when it is renewed (default: plain HTTP)."
    )
    tls_key: str = _setting("", "Its private key: a PEM file that nobody else can read.")
    tls_key_password: str = _setting("", "Password of that file, if it is encrypted.")
    tls_client_ca: str = _setting(
        "", "Clients need a certificate that an authority of this PEM file has signed, besides a token."
    )
    connections: int = _setting(
        10_000, "Connections that a process keeps; idle ones make room for new ones.", low=16, high=1_000_000
    )
    connections_per_address: int = _setting(
        5_000, "Connections of one client's address (of IPv6, of its /64).", low=1, high=1_000_000
    )
    request_seconds: int = _setting(
        20, "How long a request may take to arrive; a long body gets more while it flows.", low=1, high=3_600
    )
    coordinator: str = _setting(
        "", "Who says which nodes live: etcd://… or consul://… (default: rows in the PostgreSQL store)."
    )
    queue: str = _setting(
        "",
        "Carries work to workers elsewhere: redis://…, rediss://… or postgresql://… (default: the store's own).",
    )
    buffer: str = _setting(
        "",
        "Keeps timers that are not near out of memory: redis://…, rediss://… or redis+cluster://… (default: off).",
    )
    buffer_hours: int = _setting(2, "How far ahead timers are kept in the buffer.", low=1, high=24)
    buffer_near_seconds: int = _setting(
        300, "With a buffer: how far ahead timers are held in memory.", low=10, high=3_600
    )
    key_cache: str = _setting(
        "", "Remembers idempotency keys, so that repeated requests cost the store less: redis://… (default: off)."
    )
    lease_cache: str = _setting(
        "", "Lets workers skip hints that another one has just taken: redis://… (default: off)."
    )
    advertise: str = _setting(
        "", "Address by which other nodes reach this one (default: the one that it listens on)."
    )
    history: str = _setting(
        "", "Folder for finished runs that leave a PostgreSQL store, as Parquet files (default: they are dropped)."
    )
    store_reads: str = _setting(
        "", "Another address of the PostgreSQL store, for the API's reads: a PgBouncer (default: the store's)."
    )
    auto_migrate: bool = _setting(True, "Bring the schema of the store up to date at the start.")
    app: str = _setting("", "Python handlers to run: module or module:object.")
    token: tuple[str, ...] = _setting((), "Bearer token that requests must carry; may be given several times.")
    auth: bool = _setting(True, "Ask for a token, if any is set up; --no-auth is for loopback addresses only.")
    jwt_keys: str = _setting(
        "", "Public keys of an issuer whose JSON Web Tokens are accepted: a file or https address of a JWKS."
    )
    jwt_secret: str = _setting(
        "", "Secret shared with an issuer of JSON Web Tokens (HS256), of 32 characters or more."
    )
    jwt_audience: str = _setting("", "What the claim aud of a JSON Web Token must name; required with jwt_….")
    jwt_issuer: str = _setting("", "What its claim iss must be (default: anything).")
    jwt_leeway_seconds: int = _setting(30, "How far its clock may be off.", low=0, high=600)
    jwt_tenant_claim: str = _setting("tenant_id", "Claim that names the tenant; a.b is a path into it.")
    jwt_all_tenants: bool = _setting(
        False, "Let a tenant claim of * stand for all tenants. Only where nobody chooses that claim himself."
    )
    jwt_role_claim: str = _setting("role", "Claim that names the role, or a list of roles; a.b is a path into it.")
    jwt_default_role: str = _setting("", "Role of a token that names none (default: it is refused).")
    allow_loopback: bool = _setting(False, "Let webhooks call this machine's own loopback addresses.")
    allow_private: tuple[str, ...] = _setting(
        (), "Private network (CIDR) that webhooks may call; several allowed."
    )
    nat64_prefix: tuple[str, ...] = _setting(
        (), "Prefix by which this network reaches IPv4 over IPv6, such as 2001:db8:64::/96; several allowed."
    )
    webhook_ports: tuple[str, ...] = _setting(
        (DEFAULT_PORTS,),
        "Ports that webhooks may call: default (all but those of other protocols), 443, 8000-8999.",
        by_comma=True,
    )
    egress_proxy: tuple[str, ...] = _setting(
        (), "Proxy that webhooks go through: http://…, https://…, socks5://… or socks5h://…; others as NAME=URL."
    )
    egress_proxy_resolves: bool = _setting(
        False, "Leave looking up names, and the choice of addresses, to the proxy."
    )
    webhook_slots: int = _setting(512, "Webhooks in flight at a time.", low=1, high=10_000)
    webhook_host_limit: int = _setting(
        64, "Webhooks in flight at a time to one host and port.", low=1, high=10_000
    )
    host_rate: tuple[str, ...] = _setting(
        (), "Webhooks per time to one host, such as api.example.com=100/s; several allowed."
    )
    queue_rate: tuple[str, ...] = _setting(
        (), "Runs of a handler per time, such as handler:send_mail=50/s; several allowed."
    )
    webhook_secret: tuple[str, ...] = _setting((), "Signing secret (whsec_…); two while they are rotated.")
    secrets_key: tuple[str, ...] = _setting(
        (), "Key that stored secrets are sealed under, ID:BASE64 or base64 of 32 bytes; several: the first seals."
    )
    secrets_key_file: str = _setting("", "File with such keys, one a line, that nobody else can read.")
    secrets_key_command: str = _setting(
        "", "Command that prints such keys, one a line (a key service); run at the start, without a shell."
    )
    handler_slots: int = _setting(512, "Python handlers running at a time.", low=1, high=10_000)
    lease_seconds: int = _setting(30, "How long a worker holds a run without renewing.", low=5, high=3_600)
    grace_seconds: int = _setting(10, "How long a stop waits for running work.", low=0, high=3_600)
    window_seconds: int = _setting(3_600, "How far ahead waiting timers are held in memory.", low=60, high=86_400)
    armed_limit: int = _setting(10_000_000, "Most timers held in memory.", low=1_000, high=200_000_000)
    retention_days: int = _setting(7, "How long finished runs and jobs are kept.", low=1, high=3_650)
    audit_log_days: int = _setting(
        90, "How long entries of the audit log are kept; 0: for ever.", low=0, high=36_500
    )
    slo: tuple[str, ...] = _setting(
        DEFAULT_OBJECTIVES,
        "Which share of starts is how late at most, of a lane or a tenant: HIGH=99.9%@1s, tenant:NAME=99%@5s.",
        by_comma=True,
    )
    metrics_tenants: tuple[str, ...] = _setting(
        (), "Tenants with metrics of their own (default: none); each adds some 30 series.", by_comma=True
    )
    public_url: str = _setting(
        "", "Where people reach this server, such as https://jobs.example.com: what notifications link to."
    )
    smtp_url: str = _setting(
        "", "Mail server for notifications: smtp://user:password@host:587 (STARTTLS), or smtps://…"
    )
    smtp_from: str = _setting("", "Address that notifications come from.")
    smtp_domains: tuple[str, ...] = _setting(
        (), "Domain whose addresses may get notifications (default: any); several allowed.", by_comma=True
    )
    trace_sample: str = _setting(
        "0",
        "Share of the requests for jobs that are traced, such as 0.01 or 1%; a request's own traceparent counts.",
    )
    otlp_endpoint: str = _setting(
        "",
        "Collector that gets the spans of traces over OTLP/HTTP, such as http://127.0.0.1:4318 (default: none).",
    )
    otlp_headers: tuple[str, ...] = _setting(
        (), "Headers for the collector, NAME=VALUE with the value percent-encoded; several allowed.", by_comma=True
    )
    access_log: bool = _setting(False, "Log a line for each request.")
    log_format: str = _setting("text", "Log lines as text or json.")
    log_level: str = _setting("info", "Least level that is logged: debug, info, warning, error.")

    @property
    def loopback_only(self) -> bool:
        """Whether nobody on another machine can connect."""
        return self.host in LOOPBACK_HOSTS

    @property
    def accepts_jwt(self) -> bool:
        """Whether tokens of an issuer are accepted."""
        return bool(self.jwt_keys or self.jwt_secret)

    @property
    def clustered(self) -> bool:
        """Whether the store is one that several nodes share."""
        return self.store.partition(":")[0] in CLUSTER_SCHEMES

    def has(self, role: Role) -> bool:
        """Whether this node plays that role."""
        return role in self.roles

    def __repr__(self) -> str:
        """Without secrets."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in SECRET}
        shown |= {name: redacted(shown[name]) for name in WITH_PASSWORDS}
        shown["egress_proxy"] = tuple(map(shown_proxy, self.egress_proxy))
        return f"Settings({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


SECRET: Final = frozenset(
    {
        "token",
        "tls_key_password",
        "jwt_secret",
        "webhook_secret",
        "secrets_key",
        "secrets_key_command",
        "otlp_headers",
    }
)
WITH_PASSWORDS: Final = (
    "store",
    "coordinator",
    "queue",
    "buffer",
    "key_cache",
    "lease_cache",
    "store_reads",
    "smtp_url",
)
"""Addresses that may hold a password."""
TYPES: Final[dict[str, Any]] = get_type_hints(Settings)
FIELDS: Final = {f.name: f for f in fields(Settings)}


def setting_help(name: str) -> str:
    """One line that explains a setting."""
    return str(FIELDS[name].metadata["help"])


def setting_default(name: str) -> Any:
    """The value of a setting that nobody gave."""
    chosen = FIELDS[name]
    if chosen.default is not MISSING:
        return chosen.default
    return chosen.default_factory() if chosen.default_factory is not MISSING else ()


def default_text(name: str) -> str:
    """The default as it would be written; empty for what is off or not given."""
    default = setting_default(name)
    if isinstance(default, bool):
        return "true" if default else ""
    return ",".join(default) if isinstance(default, tuple) else str(default)
