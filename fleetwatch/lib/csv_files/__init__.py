"""CSV files that people write, and those that they open."""
