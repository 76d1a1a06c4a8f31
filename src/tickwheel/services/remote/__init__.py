"""Work that runs in other processes: queued claims, workers' sessions, taking and ending on their behalf."""
