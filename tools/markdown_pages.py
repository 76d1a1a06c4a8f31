"""A Markdown page as the checks see it: where it links to, what can be linked to in it, its code blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_HTML_LINK = re.compile(r"""\b(?:href|src|srcset)\s*=\s*["']([^"'\s]+)["']""")
_HTML_ANCHOR = re.compile(r"""\b(?:id|name)\s*=\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Something found in a page: the line where its block starts, and the text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One parsed page. `fences` are (language, content) with the line of the opening fence."""

    links: tuple[Place, ...]
    anchors: frozenset[str]
    fences: tuple[tuple[str, Place], ...]


def slug_of(heading: str) -> str:
    """The anchor that code hosts give to a heading: lower case, blanks to dashes, most punctuation gone."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def parse_page(text: str) -> Page:
    """Read one page. Links inside code don't count; those in raw HTML do."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    links: list[Place] = []
    anchors: set[str] = set()
    fences: list[tuple[str, Place]] = []
    line = 1
    for index, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else line
        if token.type == "fence":
            language = token.info.split()[0] if token.info.strip() else ""
            fences.append((language, Place(line=line, text=token.content)))
        elif token.type == "heading_open":
            anchors.add(_unused(slug_of(_plain_text(tokens[index + 1])), anchors))
        for part in (token, *(token.children or ())):
            links += [Place(line=line, text=target) for target in _targets(part)]
            if part.type in ("html_block", "html_inline"):
                anchors.update(_HTML_ANCHOR.findall(part.content))
    return Page(links=tuple(links), anchors=frozenset(anchors), fences=tuple(fences))


def read_page(path: Path) -> Page:
    """Read one page from disk."""
    return parse_page(path.read_text())


def _targets(token: Token) -> list[str]:
    if token.type == "link_open":
        return [str(token.attrs["href"])]
    if token.type == "image":
        return [str(token.attrs["src"])]
    if token.type in ("html_block", "html_inline"):
        return [str(target) for target in _HTML_LINK.findall(token.content)]
    return []


def _plain_text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def _unused(slug: str, taken: set[str]) -> str:
    """The second heading of one name gets -1, the third -2."""
    number = 0
    while (name := f"{slug}-{number}" if number else slug) in taken:
        number += 1
    return name
