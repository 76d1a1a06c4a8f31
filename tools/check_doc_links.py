"""Fails when a page of the docs points to something that isn't there.

Checked: relative links and their anchors, pages that no other page leads to, and (`doc_commands.py`) commands
in code blocks. Addresses on the web are left alone: a check must not need a network.
"""

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from doc_commands import SHELL_LANGUAGES, find_commands, find_problem
from markdown_pages import Page, read_page
from tracked_files import tracked_files

ENTRY_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def find_pages(root: Path) -> dict[Path, Page]:
    """All pages of the docs and the entry pages, by path relative to `root`."""
    paths = [path for path in tracked_files(root) if path.suffix == ".md"]
    return {
        path: read_page(root / path) for path in paths if path.parts[0] == "docs" or path.as_posix() in ENTRY_PAGES
    }


def find_broken_links(root: Path, pages: Mapping[Path, Page]) -> list[str]:
    """One line for each link to a missing file or anchor, and for each page that nothing links to."""
    problems = []
    reached = {Path(name) for name in ENTRY_PAGES}
    for path, page in pages.items():
        for place in page.links:
            url = urlsplit(place.text)
            if url.scheme or url.netloc:
                continue
            target = _resolve(root, path, unquote(url.path))
            if target is None or not (root / target).exists():
                problems.append(f"{path.as_posix()}:{place.line}: no file {place.text}")
                continue
            if target != path:
                reached.add(target)
            linked = pages.get(target)
            if url.fragment and linked is not None and unquote(url.fragment) not in linked.anchors:
                problems.append(f"{path.as_posix()}:{place.line}: no heading {place.text}")
    problems += [f"{path.as_posix()}: no page links here" for path in pages if path not in reached]
    return problems


def _resolve(root: Path, page: Path, link: str) -> Path | None:
    """The linked file relative to `root`; None where the link leaves the project or starts with a slash."""
    if not link:
        return page
    target = (root / page.parent / link).resolve()
    inside = target.is_relative_to(root.resolve()) and not link.startswith("/")
    return target.relative_to(root.resolve()) if inside else None


def find_broken_commands(
    pages: Mapping[Path, Page], cli: click.Command | None, make_targets: frozenset[str]
) -> list[str]:
    """One line for each command in a shell block that names what doesn't exist."""
    return [
        f"{path.as_posix()}:{block.line}: {problem}"
        for path, page in pages.items()
        for language, block in page.fences
        if language in SHELL_LANGUAGES
        for command in find_commands(language, block.text)
        if (problem := find_problem(command, cli, make_targets))
    ]


def load_cli() -> click.Command | None:
    """The command line as a tree of commands; None while the package has none."""
    try:
        module = importlib.import_module("tickwheel.interfaces.cli.main")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("tickwheel"):
            raise
        return None
    cli: click.Command = module.cli
    return cli


def load_make_targets(makefile: str) -> frozenset[str]:
    """The names of all targets that a Makefile's text defines."""
    return frozenset(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, re.MULTILINE))


def main() -> int:
    """Print what is broken; the exit code says if anything is."""
    root = Path.cwd()
    pages = find_pages(root)
    cli = load_cli()
    problems = find_broken_links(root, pages)
    problems += find_broken_commands(pages, cli, load_make_targets((root / "Makefile").read_text()))
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    links = sum(len(page.links) for page in pages.values())
    note = "" if cli else " (no command line to compare with yet)"
    print(f"{len(pages)} pages, {links} links{note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
