"""Use cases and loops; they know ports and the domain only."""
