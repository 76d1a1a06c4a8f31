"""Tickwheel: a self-hosted job scheduler that fires on time and never loses a job."""
