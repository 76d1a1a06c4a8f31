"""Builds the programs of the peers in Go and Java, with their libraries at pinned versions.

What is built stays in the cache; the libraries come through `go` and `mvn`, which keep them where they always do.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.peers.catalogue import GO, MAVEN
from bench.peers.clients import is_stale, renew, run_client, stamp

JAVA_RELEASE: Final = "17"
GO_RELEASE: Final = "1.26.0"
"""The oldest that River takes; `go` fetches it where it is older and may."""


def build_go(folder: Path, programs: Path) -> None:
    """One program of all files in Go, at `folder/program`."""
    if is_stale(folder, GO):
        renew(folder)
        (folder / "go.mod").write_text(f"module peers\n\ngo {GO_RELEASE}\n")
        run_client(["go", "get", *(f"{name}@v{version}" for name, version in GO.items())], folder)
        stamp(folder, GO)
    for source in programs.glob("*.go"):
        shutil.copy(source, folder)
    run_client(["go", "build", "-o", "program", "."], folder)


def build_java(folder: Path, programs: Path) -> None:
    """All files in Java into `folder/classes`, with the libraries in `folder/lib`."""
    if is_stale(folder, MAVEN):
        renew(folder)
        (folder / "pom.xml").write_text(_pom(MAVEN))
        copy = ["dependency:copy-dependencies", "-DoutputDirectory=lib"]
        run_client(["mvn", "--batch-mode", "--quiet", *copy], folder)
        stamp(folder, MAVEN)
    sources = sorted(map(str, programs.glob("*.java")))
    options = ["--release", JAVA_RELEASE, "-d", "classes", "-cp", str(Path("lib", "*"))]
    run_client(["javac", *options, *sources], folder)


def java_command(folder: Path, program: str) -> list[str]:
    """What starts a class of `build_java`."""
    return ["java", "-cp", f"{folder / 'classes'}:{folder / 'lib' / '*'}", program]


def _pom(packages: Mapping[str, str]) -> str:
    dependencies = ""
    for name, version in packages.items():
        group, _, artifact = name.partition(":")
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>\n"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )
