"""The frame of the reference page, which has no script, and the assets of all pages. Nothing comes from afar."""

from hashlib import blake2b
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.wire import Answer, Header, Refusal

PAGE_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
        b" frame-ancestors 'none'",
    ),
)

_ASSET_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


def assets() -> Handler:
    """The handler of the files in `assets/`. Browsers ask each time whether their copy is still the one."""
    answers = {
        item.name: _asset(item.read_bytes(), _ASSET_TYPES[Path(item.name).suffix])
        for item in files("tickwheel.interfaces.http").joinpath("assets").iterdir()
    }

    async def serve(call: Call) -> Answer:
        answer = answers.get(call.path("name"))
        if answer is None:
            raise Refusal("no_such_path", "There is no such file.")
        if call.headers.get(b"if-none-match") == dict(answer.headers)[b"etag"]:
            return Answer(304, headers=answer.headers[1:])
        return answer

    return serve


def _asset(content: bytes, media_type: bytes) -> Answer:
    tag = b'"%b"' % blake2b(content, digest_size=12).hexdigest().encode()
    return Answer(
        200, content, ((b"content-type", media_type), (b"cache-control", b"private, no-cache"), (b"etag", tag))
    )


def page(title: str, about: str, main: str) -> Answer:
    """A whole page; `main` is HTML, `title` and `about` are text."""
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/pages.css">
</head>
<body>
<header class="top">
<a class="brand" href="."><img src="assets/icon.svg" alt="">Tickwheel</a>
<nav>
<a href="docs">API reference</a>
<a href="openapi.json">OpenAPI</a>
</nav>
<span class="about">{escape(about)}</span>
</header>
<main>
{main}
</main>
</body>
</html>
"""
    return Answer(200, html.encode(), PAGE_HEADERS)


def table(headings: list[str], rows: list[list[str]], empty: str) -> str:
    """A table in a box that scrolls sideways; cells are HTML, each with its own `<td>`.

    Each cell carries its heading, which a narrow screen shows beside it, since there rows stand as blocks.
    """
    if not rows:
        return f'<div class="scroll"><div class="empty">{escape(empty)}</div></div>'
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    labels = [f'<td data-label="{escape(heading)}"' for heading in headings]
    body = "".join(f"<tr>{_labelled(cells, labels)}</tr>" for cells in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _labelled(cells: list[str], labels: list[str]) -> str:
    return "".join(label + html.removeprefix("<td") for label, html in zip(labels, cells, strict=True))


def cell(html: str, css: str = "") -> str:
    """One table cell."""
    return f'<td class="{css}">{html}</td>' if css else f"<td>{html}</td>"
