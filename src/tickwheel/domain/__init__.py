"""Pure rules: no clock, no I/O, no randomness."""
