"""One of the processes of `tickwheel serve --processes`: `python -m tickwheel.interfaces.cli.child DESCRIPTOR`.

Started by the parent only (see `supervisor`). Why it can't start is told to the parent, which speaks for all.
"""

import sys

from tickwheel.domain.errors import TickwheelError
from tickwheel.interfaces.cli.failures import ExitCode, Failure, failure_of
from tickwheel.interfaces.cli.lifeline import Failed, Lifeline


def main(descriptor: int) -> int:
    """Serve as ordered; the exit code."""
    try:
        lifeline = Lifeline(descriptor)
    except EOFError:
        return ExitCode.FAILED
    from tickwheel.interfaces.cli.process import Mode, run_process
    from tickwheel.interfaces.cli.serve import banner

    try:
        run_process(
            lifeline.order.settings, Mode(with_echo=False, with_console=False, banner=banner), lifeline=lifeline
        )
    except (Failure, TickwheelError) as error:
        failure = error if isinstance(error, Failure) else failure_of(error)
        lifeline.tell(Failed(failure.lines, failure.exit_code))
        return failure.exit_code
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
