"""`tickwheel doctor`: the printing; what is looked at is in `checks.py`."""

import click
import msgspec

from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.checks import check_all, check_versions
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.findings import Finding, Level
from tickwheel.interfaces.cli.output import print_json, printable
from tickwheel.interfaces.cli.settings_options import read_settings, settings_options

_MARKS = {Level.OK: "ok  ", Level.WARN: "warn", Level.FAIL: "FAIL"}
_COLORS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command(
    epilog="\b\nExamples:\n  tickwheel doctor\n"
    "  tickwheel doctor --data /var/lib/tickwheel --port 8080 --app app:app --json"
)
@settings_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def doctor(context: click.Context, /, as_json: bool, **_: object) -> None:
    """Look for what is wrong or unwise on this machine, with the settings that the server would use.

    Changes nothing. Each line is ok, warn or FAIL, with the remedy; the exit code is 1 if one failed.
    """
    try:
        settings = read_settings(context)
    except ConfigError as error:
        findings = check_versions()
        findings += [
            Finding("settings", Level.FAIL, f"{problem.field}: {problem.message}") for problem in error.problems
        ]
    else:
        findings = check_all(settings)
    failed = any(finding.level is Level.FAIL for finding in findings)
    if as_json:
        print_json({"ok": not failed, "checks": [msgspec.to_builtins(finding) for finding in findings]})
    else:
        _show(findings)
    if failed:
        raise SystemExit(ExitCode.FAILED)


def _show(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = click.style(_MARKS[finding.level], fg=_COLORS[finding.level])
        click.echo(f"{mark}  {finding.name.ljust(width)}  {printable(finding.text)}")
        if finding.remedy:
            click.echo(f"{' ' * (width + 8)}{printable(finding.remedy)}")
