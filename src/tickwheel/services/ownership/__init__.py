"""Which shards this process owns, and how it comes to know all of their timers."""
