"""Tickwheel beside its peers: the same workloads, interleaved, medians.

    python -m bench.peers --quick
    python -m bench.peers --rounds 3 --write docs/benchmarks.md
    python -m bench.peers --peers tickwheel,graphile-worker-2 --workloads drain

Installs the peers at pinned versions into a folder outside of the checkout, starts PostgreSQL and Redis with
durable settings, and runs each workload for each peer in turn, `--rounds` times. Every step is checked: each job
exactly once. Slow peers get a part of the jobs, which the table says, and no step may take longer than `--limit`.
Prints the page's section; one line per step on stderr. Peers in Go and Java are left out, with a line that says
why, where those are not to be had. The exit code is 1 when a step failed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeVar

from bench.peers.catalogue import PEERS, WORKLOADS, Peer, Runtime, find_peer
from bench.peers.clients import InstallFailed
from bench.peers.install import Toolchain, default_cache
from bench.peers.process import StepFailed, StepSkipped, end_in_order_on_sigterm
from bench.peers.report import Outcome, render, write_section
from bench.peers.servers import Servers, redis_version
from bench.peers.step import QUICK, Sizes, Step, sizes_from

ROUNDS: Final = 3
SIZES: Final = Sizes()
RUNTIMES: Final = {
    Runtime.PYTHON: "CPython",
    Runtime.NODE: "Node.js",
    Runtime.GO: "Go",
    Runtime.JAVA: "OpenJDK",
}
Named = TypeVar("Named")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; ends the program with its problem where there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", type=_names(find_peer), default=list(PEERS), help="names, with commas")
    parser.add_argument("--workloads", type=_names(_workload), default=list(WORKLOADS), help="likewise")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument(
        "--jobs", type=int, help=f"of drain (default {SIZES.jobs:,}); ingest takes half, single 1/20"
    )
    parser.add_argument("--burst", type=int, help=f"jobs of burst (default {SIZES.burst:,})")
    parser.add_argument("--rate", type=int, help=f"jobs per second of steady (default {SIZES.rate})")
    parser.add_argument("--seconds", type=int, help=f"of steady (default {SIZES.seconds})")
    parser.add_argument("--limit", type=int, help=f"seconds that a step may take (default {SIZES.limit_s})")
    parser.add_argument("--quick", action="store_true", help="one round, tiny: shows that it works")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where the peers are installed")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace its marked section (not with --quick)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append one JSON line per step")
    return parser.parse_args(arguments)


def _workload(name: str) -> str:
    if name not in WORKLOADS:
        raise ValueError(f"no workload {name!r}; known: {', '.join(WORKLOADS)}")
    return name


def _names(find: Callable[[str], Named]) -> Callable[[str], list[Named]]:
    """A list with commas, for argparse, which prints the text of ArgumentTypeError only."""

    def parse_names(text: str) -> list[Named]:
        try:
            return [find(name) for name in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_names


def plan(peers: Sequence[Peer], workloads: Sequence[str], rounds: int) -> Iterator[tuple[int, str, Peer]]:
    """Each workload for all peers in turn; in each round another peer begins."""
    for number in range(rounds):
        turn = number % len(peers)
        for workload in workloads:
            for peer in (*peers[turn:], *peers[:turn]):
                if workload in peer.workloads:
                    yield number + 1, workload, peer


def available(peers: Sequence[Peer], missing: Mapping[Runtime, str]) -> tuple[list[Peer], list[str]]:
    """The peers whose runtime is there, and a line for each other one."""
    left_out = [f"{peer.title} is left out: {missing[peer.runtime]}" for peer in peers if peer.runtime in missing]
    return [peer for peer in peers if peer.runtime not in missing], left_out


def run_step(step: Step, peer: Peer, workload: str, number: int) -> Outcome:
    """One outcome, whatever happens."""
    try:
        return Outcome(peer.name, workload, number, step.run(peer, workload))
    except StepFailed as error:
        return Outcome(peer.name, workload, number, {}, str(error), isinstance(error, StepSkipped))


def main(arguments: Sequence[str]) -> int:
    """Install, run, report."""
    end_in_order_on_sigterm()
    options = parse(arguments)
    peers: list[Peer] = options.peers
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    sizes = sizes_from(
        QUICK if options.quick else SIZES,
        jobs=options.jobs,
        burst=options.burst,
        rate=options.rate,
        seconds=options.seconds,
        limit_s=options.limit,
    )
    load, tools, outcomes = os.getloadavg()[0], Toolchain(options.cache), []
    _say(f"installing what is missing into {options.cache}")
    try:
        peers, left_out = available(peers, tools.install(peers))
    except InstallFailed as error:
        _say(str(error))
        return 1
    for line in left_out:
        _say(line)
    if not peers:
        return 1
    began = time.monotonic()
    with Servers() as servers:
        versions = {"PostgreSQL": servers.version(), "Redis": redis_version(), **_runtimes(tools, peers)}
        step, steps = Step(servers, tools, sizes), list(plan(peers, options.workloads, rounds))
        for done, (number, workload, peer) in enumerate(steps, 1):
            step_began = time.monotonic()
            outcome = run_step(step, peer, workload, number)
            outcomes.append(outcome)
            said = outcome.problem or "  ".join(f"{name} {value:,.4g}" for name, value in outcome.figures.items())
            _say(f"{done}/{len(steps)} {workload} {peer.name}: {said}  [{time.monotonic() - step_began:.0f} s]")
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
    _say(f"took {time.monotonic() - began:.0f} s")
    section = render(outcomes, sizes=sizes, rounds=rounds, versions=versions, load=load, left_out=left_out)
    print(section)
    if options.write and not options.quick:
        write_section(options.write, section)
    return 1 if any(outcome.problem and not outcome.skipped for outcome in outcomes) else 0


def _runtimes(tools: Toolchain, peers: Sequence[Peer]) -> dict[str, str]:
    needed = {Runtime.PYTHON, *(peer.runtime for peer in peers)}
    return {title: tools.version(runtime) for runtime, title in RUNTIMES.items() if runtime in needed}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
