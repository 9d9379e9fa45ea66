"""Bars, maps and charts of pages."""
