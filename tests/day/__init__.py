"""A day of a fleet of 64 GPUs with five people (make test-day)."""
