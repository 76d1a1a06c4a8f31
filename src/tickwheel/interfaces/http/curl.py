"""A curl line for an operation, ready to paste."""

import shlex
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tickwheel.interfaces.http.operations import Operation

BASE_URL: Final = "http://localhost:8080"
_ONE_LINE_CHARS: Final = 88


def curl_line(operation: Operation, base_url: str = BASE_URL) -> str:
    """The call with the operation's own examples; parameters without an example are left out."""
    path = operation.path
    query = []
    headers = []
    for param in operation.params:
        if param.example is None:
            continue
        if param.where == "path":
            path = path.replace(f"{{{param.name}}}", quote(str(param.example), safe=""))
        elif param.where == "header":
            headers.append(f"-H {shlex.quote(f'{param.name}: {param.example}')}")
        elif param.example != param.schema.get("default"):
            query.append(f"{param.name}={quote(str(param.example), safe=':')}")
    url = base_url + path + ("?" + "&".join(query) if query else "")
    words = ["curl -sS"]
    implied = "GET" if operation.body is None else "POST"
    if operation.method != implied:
        words.append(f"-X {operation.method}")
    words.append(shlex.quote(url) if "?" in url else url)
    lines = [" ".join(words), *headers]
    if operation.body is not None:
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(pretty(operation.body.example))}")
    return " \\\n  ".join(lines)


def pretty(value: Any) -> str:
    """JSON for people: on one line when it is short."""
    compact = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    if len(compact) <= _ONE_LINE_CHARS:
        return compact
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
