"""The root of the command line: what there is, and nothing that takes time to import."""

from importlib.metadata import version
from typing import Final

import click

from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.lazy import Entry, LazyCommands, RootGroup

_HERE: Final = "tickwheel.interfaces.cli"

COMMANDS: Final = LazyCommands(
    {
        "dev": Entry(f"{_HERE}.dev:dev", "Start everything on this machine, to try it out and to develop."),
        "serve": Entry(f"{_HERE}.serve:serve", "Start the server for real use."),
        "worker": Entry(f"{_HERE}.worker:worker", "Execute runs, on any machine and in any number."),
        "jobs": Entry(f"{_HERE}.jobs:jobs", "Create, look at, change and delete jobs."),
        "runs": Entry(f"{_HERE}.runs:runs", "Look at a run and its attempts; cancel one."),
        "explain": Entry(f"{_HERE}.explain:explain", "Say why it did not run, ran late or ran twice."),
        "tail": Entry(f"{_HERE}.tail:tail", "Follow runs as they end."),
        "dlq": Entry(f"{_HERE}.dlq:dlq", "Runs that are out of attempts: list, run again, delete."),
        "workers": Entry(f"{_HERE}.workers:workers", "List the live workers."),
        "slo": Entry(f"{_HERE}.slo:slo", "Show how late starts are, and what of the error budget is left."),
        "tokens": Entry(f"{_HERE}.tokens:tokens", "Make, rotate and revoke API keys."),
        "secrets": Entry(f"{_HERE}.secrets:secrets", "Make and rotate signing secrets; keys of stored secrets."),
        "tenants": Entry(f"{_HERE}.tenants:tenants", "Set and show what tenants may use."),
        "notifications": Entry(
            f"{_HERE}.notifications:notifications",
            "Set who is told, by webhook or e-mail, of what goes wrong.",
        ),
        "audit-log": Entry(f"{_HERE}.audit_log:audit_log", "Read who changed what."),
        "preview": Entry(f"{_HERE}.preview:preview", "Show when a cron expression fires."),
        "migrate": Entry(f"{_HERE}.migrate:migrate", "Bring the database to this version's schema."),
        "doctor": Entry(f"{_HERE}.doctor:doctor", "Look for what is wrong or unwise on this machine."),
        "audit": Entry(f"{_HERE}.audit:audit", "Account for every job and run in the store."),
        "plan": Entry(f"{_HERE}.plan:plan", "Show what a load needs of machines."),
        "bench": Entry(f"{_HERE}.bench:bench", "Measure this installation on this machine."),
    }
)

_EPILOG: Final = (
    "\b\nExit codes:\n"
    + "\n".join(f"  {code.value}  {code.meaning}" for code in ExitCode)
    + "\n\n\b\nCompletion, for bash (zsh and fish likewise):\n"
    '  eval "$(_TICKWHEEL_COMPLETE=bash_source tickwheel)"'
)


@click.group(
    cls=RootGroup,
    commands=COMMANDS,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version("tickwheel"), message="tickwheel %(version)s")
def cli() -> None:
    """Schedule jobs, and look after them.

    `tickwheel dev` starts everything and prints three commands to try. The other commands talk to a running
    server (--url, or TICKWHEEL_URL; by default the one on this machine at port 8080).
    """


def main() -> None:
    """The installed command; ends the process."""
    cli(prog_name="tickwheel")
