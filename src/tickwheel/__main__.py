"""`python -m tickwheel` is the command `tickwheel`."""

from tickwheel.interfaces.cli.main import main

main()
