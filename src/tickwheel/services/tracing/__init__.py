"""Traces: of requests that make jobs, and of what becomes of them."""
