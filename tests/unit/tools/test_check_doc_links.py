"""The gate on links, pages and commands of the docs."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest

import check_doc_links
from doc_commands import find_commands, find_problem
from markdown_pages import parse_page, slug_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Start\n\n[guide](docs/guide.md#the-first-step)\n")
    (tmp_path / "docs/guide.md").write_text("# Guide\n\n## The first step\n\n[back](../README.md#start)\n")
    return tmp_path


def broken(project: Path) -> list[str]:
    return check_doc_links.find_broken_links(project, check_doc_links.find_pages(project))


def test_whole_project_passes(project: Path) -> None:
    assert broken(project) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x](docs/none.md)", "README.md:1: no file docs/none.md"),
        ("![x](docs/img/none.svg)", "README.md:1: no file docs/img/none.svg"),
        ('<img src="docs/none.png">', "README.md:1: no file docs/none.png"),
        ("[x](docs/guide.md#second)", "README.md:1: no heading docs/guide.md#second"),
        ("[x](#nowhere)", "README.md:1: no heading #nowhere"),
        ("[x](/docs/guide.md)", "README.md:1: no file /docs/guide.md"),
        ("[x](../outside.md)", "README.md:1: no file ../outside.md"),
        ("a [x][ref]\n\n[ref]: docs/none.md", "README.md:1: no file docs/none.md"),
        ("| a |\n|---|\n| [x](docs/none.md) |", "README.md:3: no file docs/none.md"),
    ],
)
def test_broken_link_is_named_with_its_place(project: Path, text: str, expected: str) -> None:
    (project / "README.md").write_text(f"{text}\n\n[guide](docs/guide.md)\n\n# Start\n")
    assert broken(project) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "`[x](docs/none.md)`",
        "```\n[x](docs/none.md)\n```",
        "[x](https://example.org/none)",
        "<mailto:a@example.org>",
    ],
)
def test_code_and_the_web_are_left_alone(project: Path, text: str) -> None:
    (project / "README.md").write_text(f"# Start\n\n[guide](docs/guide.md)\n\n{text}\n")
    assert broken(project) == []


def test_page_that_nothing_links_to_is_reported(project: Path) -> None:
    (project / "docs/orphan.md").write_text("# Orphan\n\n[me](orphan.md)\n")
    assert broken(project) == ["docs/orphan.md: no page links here"]


def test_anchors_are_those_of_the_code_hosts() -> None:
    assert slug_of("At-least-once: what `I1` means") == "at-least-once-what-i1-means"
    page = parse_page('# A `b`\n\n# A b\n\n<a id="own"></a>\n')
    assert page.anchors == {"a-b", "a-b-1", "own"}


@click.group()
def cli() -> None:
    """A small command line."""


@cli.group()
@click.option("--json/--no-json", "as_json")
def jobs(as_json: bool) -> None:
    """Jobs."""


@jobs.command()
@click.argument("job_id")
@click.option("--yes", "-y", is_flag=True)
def cancel(job_id: str, yes: bool) -> None:
    """Cancel one."""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tickwheel jobs cancel job_1 --yes", None),
        ("TICKWHEEL_TOKEN=x .venv/bin/tickwheel jobs cancel --help", None),
        ("tickwheel jobs --no-json cancel job_1 # it's gone then", None),
        ("tickwheel jobs cancel < ids.txt | tee --nonsense", None),
        ("curl --nonsense tickwheel", None),
        ("make check PORT=1", None),
        ("tickwheel job cancel", "'tickwheel' has no command 'job'"),
        ("tickwheel jobs cancle job_1", "'tickwheel jobs' has no command 'cancle'"),
        ("echo x && tickwheel jobs cancel --force", "'tickwheel jobs cancel' has no option '--force'"),
        ("tickwheel jobs cancel \\\n  --force=1", "'tickwheel jobs cancel' has no option '--force'"),
        ("make chekc", "the Makefile has no target 'chekc'"),
    ],
)
def test_commands_are_looked_up(line: str, expected: str | None) -> None:
    targets = check_doc_links.load_make_targets("check: a b\n\t@c\nX := y\nnot-a-target:=z\n")
    assert targets == {"check"}
    found = [find_problem(command, cli, targets) for command in find_commands("sh", line)]
    assert [problem for problem in found if problem] == ([expected] if expected else [])


def test_answers_in_console_blocks_are_not_commands() -> None:
    block = "$ tickwheel jobs list\ntickwheel is not a command here\n"
    assert list(find_commands("console", block)) == [["tickwheel", "jobs", "list"]]


def test_wrong_command_in_a_page_is_reported(project: Path) -> None:
    (project / "README.md").write_text("# Start\n\n[guide](docs/guide.md)\n\n```sh\ntickwheel jobs purge\n```\n")
    pages = check_doc_links.find_pages(project)
    found = check_doc_links.find_broken_commands(pages, cli, frozenset())
    assert found == ["README.md:5: 'tickwheel jobs' has no command 'purge'"]
