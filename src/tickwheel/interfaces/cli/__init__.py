"""The `tickwheel` command: one module per group, loaded when it is used."""
