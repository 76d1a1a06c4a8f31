"""What `tickwheel doctor` says of the server's tokens, and `serve` refuses to start with."""

from collections.abc import Iterator

from tickwheel.config import Settings
from tickwheel.domain.api_keys import parse_key
from tickwheel.interfaces.cli.findings import Finding, Level


def check_tokens(settings: Settings) -> Iterator[Finding]:
    """Clients read an API key from the variable of the server's tokens; a tenant's key would open everything."""
    if any(parse_key(token) for token in settings.token):
        text = "is an API key (tw_...). As a token of the server itself it would open everything."
        remedy = "API keys are in the store and need no setting: unset TICKWHEEL_TOKEN and start again."
        yield Finding("token", Level.FAIL, text, remedy)
