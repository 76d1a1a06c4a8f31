"""`tickwheel bench`: measures this installation on this machine.

Each benchmark checks its own result (every run exactly once) and fails otherwise, shows a progress bar meanwhile
and ends with one line of flat JSON.
"""
