"""`/docs`: the API reference as one page, rendered here from the same data as the OpenAPI document."""

import re
from functools import lru_cache
from html import escape
from typing import Final

from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.http.curl import BASE_URL, curl_line, pretty
from tickwheel.interfaces.http.field_table import FieldRow, field_rows
from tickwheel.interfaces.http.openapi import INTRODUCTION, TAGS, problem_codes
from tickwheel.interfaces.http.operations import OPERATIONS, Operation, Param, Reply
from tickwheel.interfaces.http.operations.model import HEADERS
from tickwheel.interfaces.http.pages import cell, page, table
from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.schema_text import schema_text
from tickwheel.interfaces.http.version import VERSION
from tickwheel.interfaces.http.wire import ERRORS, Answer

_DOCUMENTED: Final = tuple(operation for operation in OPERATIONS if operation.in_document)


_LOOPBACK: Final = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")


async def docs_page(call: Call) -> Answer:
    """The handler of `/docs`."""
    return _page(_base_url(call.headers.get(b"host", b"")))


def _base_url(host: bytes) -> str:
    """Where the curl lines go: to this very server on one's own machine. Elsewhere a proxy may stand in front."""
    return f"http://{host.decode()}" if _LOOPBACK.fullmatch(host) else BASE_URL


@lru_cache(maxsize=4)
def _page(base_url: str) -> Answer:
    sections = (_section(tag, base_url) for tag in TAGS)
    body = "\n".join([_introduction(), *sections, _fields(), _problems()])
    main = f'<div class="docs"><nav aria-label="Contents">{_contents()}</nav><div>{body}</div></div>'
    return page("Tickwheel API", f"{VERSION} · tzdata {tzdata_version()}", main)


def _introduction() -> str:
    paragraphs = "".join(f"<p>{inline(text)}</p>" for text in INTRODUCTION.strip().split("\n\n"))
    return f'<h1 id="top">API reference</h1>{paragraphs}'


def _contents() -> str:
    sections = [
        f"<section><strong>{escape(tag)}</strong><ul>"
        + "".join(_contents_line(operation) for operation in _DOCUMENTED if operation.tag == tag)
        + "</ul></section>"
        for tag in TAGS
    ]
    more = '<a href="#fields">Fields of a job</a></li><li><a href="#problems">Errors</a>'
    return "".join(sections) + f"<section><strong>Tables</strong><ul><li>{more}</li></ul></section>"


def _contents_line(operation: Operation) -> str:
    return f'<li><a href="#{operation.name}">{escape(operation.summary)}</a></li>'


def _section(tag: str, base_url: str) -> str:
    shown = "\n".join(_operation(operation, base_url) for operation in _DOCUMENTED if operation.tag == tag)
    return f"<h2>{escape(tag)}</h2><p class='soft'>{inline(TAGS[tag])}</p>{shown}"


def _operation(operation: Operation, base_url: str) -> str:
    parts = [
        f'<article class="op" id="{operation.name}">',
        f'<h3><span class="verb {operation.method}">{operation.method}</span> '
        f"<code>{escape(operation.path)}</code></h3>",
        f"<p>{inline(operation.summary)}.</p>",
        *(f"<p>{inline(text)}</p>" for text in operation.description.split("\n\n") if text),
        _params(operation.params),
        '<div class="pair"><div><h4>Try it</h4>',
        f"<pre><code>{escape(curl_line(operation, base_url))}</code></pre></div><div>",
        *(_reply(reply) for reply in operation.replies),
        "</div></div>",
        _problem_list(operation),
        "</article>",
    ]
    return "\n".join(parts)


def _params(params: tuple[Param, ...]) -> str:
    if not params:
        return ""
    rows = [
        [
            cell(f"<code>{escape(param.name)}</code><span class='soft'>{param.where}</span>", "name"),
            cell(escape(schema_text(param))),
            cell(inline(param.description), "wide"),
        ]
        for param in params
    ]
    return "<h4>Parameters</h4>" + table(["Name", "Type", "Meaning"], rows, "")


def _reply(reply: Reply) -> str:
    shown = [f"<h4>{reply.status} {inline(reply.description)}</h4>"]
    if reply.example is not None:
        text = reply.example if isinstance(reply.example, str) else pretty(reply.example)
        shown.append(f"<pre><code>{escape(text)}</code></pre>")
    shown += [f"<p class='soft'><code>{name}</code>: {inline(HEADERS[name][0])}</p>" for name in reply.headers]
    return "".join(shown)


def _problem_list(operation: Operation) -> str:
    lines = []
    for status, codes in problem_codes(operation).items():
        links = ", ".join(f'<a href="#problem-{code}"><code>{code}</code></a>' for code in codes)
        lines.append([cell(str(status)), cell(links, "wide")])
    return f"<details><summary>Errors</summary>{table(['Status', 'Codes'], lines, '')}</details>"


def _fields() -> str:
    rows = [_field_row(row) for row in field_rows()]
    heading = '<h2 id="fields">Fields of a job</h2>'
    return heading + table(["Field", "Value", "Meaning"], rows, "")


def _field_row(row: FieldRow) -> list[str]:
    bound = f'<span class="soft">{inline(row.bound)}</span>' if row.bound else ""
    default = row.default if row.default in ("", "required") else f"default: {row.default}"
    default = f'<span class="soft">{inline(default)}</span>' if default else ""
    goes_with = f'<span class="soft">{inline(row.goes_with)}</span>' if row.goes_with else ""
    return [
        cell(f"<code>{escape(row.name)}</code>", "name"),
        cell(inline(row.kind) + bound + default),
        cell(inline(row.meaning) + goes_with, "wide"),
    ]


def _problems() -> str:
    rows = [
        [
            cell(f'<code id="problem-{code}">{code}</code>', "name"),
            cell(str(kind.status)),
            cell(inline(kind.title)),
            cell(inline(kind.meaning), "wide"),
        ]
        for code, kind in ERRORS.items()
    ]
    return '<h2 id="problems">Errors</h2>' + table(["Code", "Status", "Title", "Meaning"], rows, "")


def inline(text: str) -> str:
    """Text with `code` in backquotes as HTML."""
    pieces = escape(text.replace("\n", " ")).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
