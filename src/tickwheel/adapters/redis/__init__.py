"""Everything that Tickwheel does with Redis (extra `redis`). Losing all that it holds changes latency only."""
