"""Views of pages: each parses, permits, selects, renders."""
