"""`tickwheel bench throughput`, with a pause before and after draining to look at the clocks."""

import json
import sys

import uvloop

from tickwheel.interfaces.bench import inprocess


class Marks:
    """Stands where the progress bar does: after the last job was stored, and after the last run has ended."""

    def __init__(self, jobs: int) -> None:
        self._jobs, self._steps = jobs, 0

    def update(self, n_steps: int) -> None:
        before, self._steps = self._steps, self._steps + n_steps
        if before < self._jobs <= self._steps:
            _mark("loaded")
        if before < 2 * self._jobs <= self._steps:
            _mark("done")


def _mark(name: str) -> None:
    print(json.dumps({"mark": name}), flush=True)
    sys.stdin.readline()


def main() -> None:
    """`tickwheel_drain CONFIG`"""
    config = json.loads(sys.argv[-1])
    figures = uvloop.run(inprocess.throughput(config["url"], config["jobs"], Marks(config["jobs"])))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
