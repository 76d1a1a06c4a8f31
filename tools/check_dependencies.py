"""Fails when something about the dependencies is not as it should be. Needs no network.

- Every line of a lock file pins one version by hashes, and the three fit together.
- The licence of every package is one that `dependencies.toml` allows.
- What the sources import is declared in `pyproject.toml`, and what is declared is imported.

Whether a version has known vulnerabilities is asked elsewhere (`known_vulnerabilities.py`).
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any, Final

from tracked_files import tracked_files

LOCKS: Final = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
OURS: Final = frozenset({"tickwheel", "tests", "bench"})
CLASSIFIERS: Final = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Those that say which licence it is; `BSD License` doesn't."""
_PINNED: Final = re.compile(r"([a-z0-9][a-z0-9.-]*)==(\S+)( ; [^\\]+)? \\")
_HASH: Final = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(name: str, text: str, problems: list[str]) -> dict[str, set[str]]:
    """The versions of each package; a package may have several, each for other machines."""
    versions: dict[str, set[str]] = {}
    hashed = True
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PINNED.fullmatch(line):
            versions.setdefault(match[1], set()).add(match[2])
            if not hashed:
                problems.append(f"{name}:{number - 1}: a package without a hash")
            hashed = False
        elif _HASH.fullmatch(line):
            hashed = True
        else:
            problems.append(f"{name}:{number}: neither a pinned package nor its hash")
    if not hashed:
        problems.append(f"{name}: the last package has no hash")
    return versions


def find_in_locks(locks: Mapping[str, Mapping[str, set[str]]]) -> Iterator[str]:
    """Where one environment could not hold all of them."""
    *parts, whole = locks
    for part in parts:
        for package, versions in locks[part].items():
            if locks[whole].get(package) != versions:
                yield f"{part}: {package} is another one than in {whole}; run 'make lock'"


def licence_of(package: str, found: Distribution, named: Mapping[str, str]) -> str:
    """An SPDX expression; empty when nothing says it."""
    if package in named:
        return named[package]
    said = found.metadata.get_all("License-Expression")
    if said:
        return str(said[0])
    classifiers = [
        CLASSIFIERS[words]
        for line in found.metadata.get_all("Classifier") or []
        if line.startswith("License ::") and (words := line.rpartition(":: ")[2]) in CLASSIFIERS
    ]
    text = str((found.metadata.get_all("License") or [""])[0]).removesuffix(" License")
    return " OR ".join(classifiers) or (text if len(text.split()) == 1 else "")


def is_allowed(expression: str, allowed: Iterable[str]) -> bool:
    """Whether all that the expression asks for together is allowed, in one of its alternatives."""
    known = set(allowed)
    return any(
        all(part.strip("() ") in known for part in alternative.split(" AND "))
        for alternative in expression.split(" OR ")
    )


def find_licences(locks: Mapping[str, Mapping[str, set[str]]], rules: Mapping[str, Any]) -> Iterator[str]:
    """Packages under a licence that is not allowed. What is not installed on this machine can't be looked at."""
    shipped, exceptions = locks[LOCKS[0]], rules["exceptions"]
    strict = set(rules["licences"]["allowed"])
    for package in sorted({name for lock in locks.values() for name in lock}):
        try:
            found = distribution(package)
        except PackageNotFoundError:
            continue
        allowed = strict if package in shipped else strict | set(rules["licences"]["allowed_in_development"])
        licence = licence_of(package, found, rules["named"])
        if is_allowed(licence, allowed):
            if package in exceptions:
                yield f"dependencies.toml: {package} needs no exception any more"
        elif package not in exceptions:
            shown = licence or "a licence that its metadata don't name"
            yield f"{package}: {shown} is not among the allowed ones (tools/dependencies.toml)"


def imports_of(text: str) -> set[str]:
    """Top-level names that a source imports, by constant names too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return {name.partition(".")[0] for name in found}


class Declared:
    """What `pyproject.toml` asks for, by where it may be used."""

    def __init__(self, project: Mapping[str, Any]) -> None:
        extras: Mapping[str, list[str]] = project["project"]["optional-dependencies"]
        groups: Mapping[str, list[str]] = project["dependency-groups"]
        needed: list[str] = project["project"]["dependencies"]
        self.shipped = _names([*needed, *(one for extra in extras.values() for one in extra)])
        self.all = self.shipped | _names([one for group in groups.values() for one in group])


def _names(requirements: Iterable[str]) -> set[str]:
    return {normal(match[0]) for text in requirements if (match := _NAME.match(text))}


def find_imports(
    imported: Mapping[str, set[str]],
    declared: Declared,
    provided: Mapping[str, list[str]],
    rules: Mapping[str, Any],
) -> Iterator[str]:
    """What is imported and not declared, or the other way round. `imported`: the names by file."""
    used = set()
    for path, names in sorted(imported.items()):
        allowed = declared.shipped | rules["brought"].keys() if path.startswith("src/") else declared.all
        for name in sorted(names - sys.stdlib_module_names - OURS - rules["elsewhere"].keys()):
            packages = {normal(package) for package in provided.get(name, [])}
            used |= packages
            if packages and not packages & allowed:
                yield f"{path}: imports {name}, but pyproject.toml doesn't ask for {' or '.join(sorted(packages))}"
            elif not packages and not _is_local(name, path, imported):
                yield f"{path}: imports {name}, which is not installed"
    exempt = rules["not_imported"].keys()
    for package in sorted(declared.all - used - exempt):
        yield f"pyproject.toml: asks for {package}, which nothing imports"
    for package in sorted(exempt & (used | (exempt - declared.all))):
        yield f"dependencies.toml: {package} is imported or not asked for; take it out of not_imported"


def _is_local(name: str, path: str, imported: Mapping[str, set[str]]) -> bool:
    """A module of the tools, or one that lies beside the file."""
    folder = path.rpartition("/")[0]
    return any(f"{place}/{name}.py" in imported for place in ("tools", folder)) or path.startswith("tests/")


def main() -> int:
    """Print every problem; the exit code says if there was one."""
    root = Path.cwd()
    problems: list[str] = []
    rules = tomllib.loads(Path(__file__).with_name("dependencies.toml").read_text())
    locks = {name: read_lock(name, (root / name).read_text(), problems) for name in LOCKS}
    problems += find_in_locks(locks)
    problems += find_licences(locks, rules)
    sources = [
        path
        for path in tracked_files(root)
        if path.suffix == ".py" and path.parts[0] in ("src", "tests", "tools", "bench")
    ]
    imported = {path.as_posix(): imports_of((root / path).read_text()) for path in sources}
    declared = Declared(tomllib.loads((root / "pyproject.toml").read_text()))
    problems += find_imports(imported, declared, packages_distributions(), rules)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    count = len(locks[LOCKS[-1]])
    print(f"{count} packages, pinned and under allowed licences; {len(sources)} files import no others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
