"""Workers inside programs of one's own."""
