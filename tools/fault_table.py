"""Writes the table in `docs/explanation/reported-faults.md`: the words of `reported_faults.toml`, with the tests.

usage: python tools/fault_table.py [--check]      (--check writes nothing and fails when the page is old)

A test says with `@pytest.mark.pitfall(N)` which case it realises. A case without a test, or a marked test without
words, is refused: the page can't promise what nothing shows.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from generated_page import GeneratedPage, table

PAGE_PATH = Path("docs/explanation/reported-faults.md")
TESTS = Path("tests")
WORDS = Path(__file__).with_name("reported_faults.toml")
SHOWN_COUNT = 3
"""Tests named per case, the widest first."""
WIDEST_FIRST = ("acceptance", "interfaces", "services", "adapters", "conformance", "unit")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def marked_tests(tests: Path) -> dict[int, list[str]]:
    """Case number -> `path::name` of its tests, the widest first."""
    found: dict[int, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py"), key=lambda path: (_width(path.relative_to(tests)), path)):
        for number, name in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(number, []).append(f"{path.as_posix()}::{name}")
    return {number: list(dict.fromkeys(names)) for number, names in sorted(found.items())}


def _width(path: Path) -> int:
    return WIDEST_FIRST.index(path.parts[0]) if path.parts[0] in WIDEST_FIRST else len(WIDEST_FIRST)


def _marks(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(case number, test name) of every marker: on the test itself, or in a list of cases that it goes through."""
    shared = {
        target.id: _numbers(node.value)
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, Function) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                names = {part.id for part in ast.walk(decorator) if isinstance(part, ast.Name)}
                numbers = set(_numbers(decorator)).union(*(shared.get(name, []) for name in names))
                yield from ((number, node.name) for number in numbers)


def _numbers(tree: ast.AST) -> list[int]:
    return [
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "pitfall"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, int)
    ]


def find_gaps(words: dict[int, dict[str, str]], tests: dict[int, list[str]]) -> list[str]:
    """Cases that only one of the two has."""
    return [f"case {number} has words but no test" for number in sorted(words.keys() - tests.keys())] + [
        f"case {number} has no words; it is marked in {tests[number][0]}"
        for number in sorted(tests.keys() - words.keys())
    ]


def render() -> str:
    """The table, one line per case."""
    words = {int(number): text for number, text in tomllib.loads(WORDS.read_text(encoding="utf-8")).items()}
    tests = marked_tests(TESTS)
    gaps = find_gaps(words, tests)
    if gaps:
        raise SystemExit("\n".join(gaps))
    rows = [
        (str(number), words[number]["elsewhere"], words[number]["here"], _tests_cell(tests[number]))
        for number in sorted(words)
    ]
    return table(("case", "what went wrong elsewhere", "what Tickwheel does", "shown by"), rows)


def _tests_cell(names: list[str]) -> str:
    shown = "<br>".join(f"`{name}`" for name in names[:SHOWN_COUNT])
    more = len(names) - SHOWN_COUNT
    return shown if more <= 0 else f"{shown}<br>and {more} more"


PAGE = GeneratedPage(PAGE_PATH, tool="fault_table.py", render=render)

if __name__ == "__main__":
    sys.exit(PAGE.main(sys.argv[1:]))
