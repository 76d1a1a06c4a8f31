"""Python functions as targets, run in this process."""
