"""`python -m tests.fuzz`: the long form."""

import sys

from .long_form import main

if __name__ == "__main__":
    sys.exit(main())
