"""Forms of pages: their fields, and what becomes of what was sent."""
