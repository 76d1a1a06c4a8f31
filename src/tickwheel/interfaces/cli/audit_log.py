"""`tickwheel audit-log`: who changed what."""

import click
import msgspec

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.output import print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import AuditEntry, AuditLogPage


@click.command(
    epilog="\b\nExamples:\n  tickwheel audit-log --action job.\n"
    "  tickwheel audit-log --subject job_01M8M44DJB01X52CQTK1B2C429\n"
    "  tickwheel audit-log --actor key:k3v9q2m7x4tz --from 2026-11-29T00:00:00Z --json"
)
@click.option("--action", help="A whole action, or what one begins with up to the dot: `job`.")
@click.option("--actor", help="Who did it: key:ID, jwt:SUBJECT, token, cli:USER or anonymous.")
@click.option("--subject", help="The id of what was changed.")
@click.option("--from", "from_", metavar="INSTANT", help="Not before this instant.")
@click.option("--to", metavar="INSTANT", help="Before this instant.")
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on after a page: its next_cursor.")
@server_options
def audit_log(
    api: Api,
    action: str | None,
    actor: str | None,
    subject: str | None,
    from_: str | None,
    to: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """Read who changed what.

    Newest first: jobs, runs, tokens, tenants, signing secrets. --json shows how it was before and after.
    """
    filters = {
        "action": action,
        "actor": actor,
        "subject": subject,
        "from": from_,
        "to": to,
        "limit": limit,
        "cursor": cursor,
    }
    api.show(calls.audit_log(api.tenant, filters), _show)


def _show(page: AuditLogPage) -> None:
    print_table(
        ("WHEN", "WHO", "FROM", "TENANT", "DID", "TO", "CHANGED"),
        [
            (
                short(one.at),
                f"{one.actor} ({one.actor_label})" if one.actor_label else one.actor,
                one.source or "-",
                one.tenant_id or "*",
                one.action,
                one.subject,
                _what(one),
            )
            for one in page.entries
        ],
        empty="Nothing was changed.",
    )
    if page.next_cursor:
        click.echo(f"There are more: --cursor {page.next_cursor}", err=True)


def _what(entry: AuditEntry) -> str:
    """The members that differ, with their new values, in short."""
    after = entry.after if isinstance(entry.after, dict) else {}
    return msgspec.json.encode(after).decode() if after else ""
