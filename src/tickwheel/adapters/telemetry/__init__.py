"""Where events go: metrics, log lines, the console of `tickwheel dev`."""
