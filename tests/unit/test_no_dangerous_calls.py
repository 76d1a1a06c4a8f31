"""Nothing in the sources makes code out of data, or hands a text to a shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tickwheel

SOURCES = Path(tickwheel.__file__).parent
FILES = sorted(SOURCES.rglob("*.py"))
READ_CODE = frozenset({"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"})
"""Modules whose input may run anything."""
PICKLE_INSIDE = frozenset({"multiprocessing", "dbm", "code", "codeop", "imp", "pty", "xmlrpc"})
BUILTINS = frozenset({"eval", "exec", "compile", "__import__", "execfile"})
CALLS = {
    "os": frozenset(
        {"system", "popen", "execl", "execle", "execlp", "execv", "execve", "execvp", "spawnl", "spawnv"}
    ),
    "asyncio": frozenset({"create_subprocess_shell"}),
    "subprocess": frozenset({"getoutput", "getstatusoutput"}),
    "tempfile": frozenset({"mktemp"}),
    "yaml": frozenset({"load", "load_all", "unsafe_load", "full_load"}),
    "ssl": frozenset({"_create_unverified_context", "_create_default_https_context"}),
    "concurrent.futures": frozenset({"ProcessPoolExecutor"}),
    "builtins": BUILTINS,
}
HANDLES_REQUESTS = ("interfaces/http", "domain/requests", "services", "receiver", "adapters/pull")
"""Where a module must not be imported by a name that is found at run time."""


def findings(text: str, place: str) -> Iterator[str]:
    """What is dangerous in a source."""
    tree = ast.parse(text)
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        for module in _modules(node):
            if {module, module.partition(".")[0]} & (READ_CODE | PICKLE_INSIDE):
                yield f"{place}:{node.lineno}: imports {module}"  # type: ignore[attr-defined]  # an import has one
        if isinstance(node, ast.Call):
            called = _called(node.func, names)
            module, _, name = called.rpartition(".")
            if name in CALLS.get(module, ()) or (not module and name in BUILTINS):
                yield f"{place}:{node.lineno}: calls {called}"
            if any(keyword.arg == "shell" and not _is(keyword.value, False) for keyword in node.keywords):
                yield f"{place}:{node.lineno}: gives a text to a shell"
            if any(keyword.arg == "allow_pickle" and not _is(keyword.value, False) for keyword in node.keywords):
                yield f"{place}:{node.lineno}: reads pickles"
            if name == "import_module" and place.startswith(HANDLES_REQUESTS):
                yield f"{place}:{node.lineno}: imports what is named at run time"


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What local names stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _called(function: ast.expr, names: dict[str, str]) -> str:
    text = ast.unparse(function)
    first, dot, rest = text.partition(".")
    return f"{names.get(first, first)}{dot}{rest}"


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_no_source_runs_data_or_a_shell() -> None:
    assert len(FILES) > 300
    found = [
        one
        for path in FILES
        for one in findings(path.read_text(encoding="utf-8"), path.relative_to(SOURCES).as_posix())
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import shelve as s",
        "from multiprocessing import Pool",
        "eval('1')",
        "exec(code)",
        "__import__(name)",
        "import builtins; builtins.eval('1')",
        "import os; os.system('ls')",
        "from os import system; system('ls')",
        "from os import popen as p; p('ls')",
        "import subprocess; subprocess.run('ls', shell=True)",
        "import subprocess; subprocess.run('ls', shell=wanted)",
        "import asyncio; asyncio.create_subprocess_shell('ls')",
        "import yaml; yaml.load(text)",
        "import ssl; ssl._create_unverified_context()",
        "import numpy as np; np.load(f, allow_pickle=True)",
        "from concurrent.futures import ProcessPoolExecutor; ProcessPoolExecutor()",
        "from importlib import import_module; import_module(body.name)",
    ],
)
def test_what_would_be_dangerous_is_found(text: str) -> None:
    assert list(findings(text, "interfaces/http/x.py"))


@pytest.mark.parametrize(
    "text",
    [
        "import re; re.compile('x')",
        "from re import compile as compile_pattern; compile_pattern('x')",
        "connection.eval('script')",
        "import subprocess; subprocess.run(['ls'], shell=False)",
        "import subprocess; subprocess.run(['ls'])",
    ],
)
def test_what_is_harmless_is_not(text: str) -> None:
    assert not list(findings(text, "interfaces/http/x.py"))
