"""What may be claimed now for which target; the rest waits unclaimed."""
