"""The second timer buffer: minute buckets outside the process, for what is due later than the wheel holds."""
