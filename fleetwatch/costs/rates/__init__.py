"""What an hour of a GPU costs: rates by subject, written at cuts, read, and imported."""
