"""`python -m tests.simulation SEED`: tell one story again and say what broke.

`python -m tests.simulation mutations` prints the table of dropped rules.
"""

import sys

from .every_mutation import table
from .story import tell


def main() -> int:
    """Exit code 1 if a rule was broken."""
    if sys.argv[1] == "mutations":
        print(table())
        return 0
    story = tell(int(sys.argv[1]), dropped=sys.argv[2:])
    for what, count in sorted(story.met.items()):
        print(f"{count:6} {what}")
    for violation in story.rulebook.violations:
        print(violation)
    for (job_id, scheduled_ms), happened in story.rulebook.history.items():
        if any(f"{job_id.hex()[-6:]}@" in violation for violation in story.rulebook.violations):
            print("", f"run {job_id.hex()[-6:]}@{scheduled_ms % 10**8}:", *happened, sep="\n")
    return 1 if story.rulebook.violations else 0


if __name__ == "__main__":
    sys.exit(main())
