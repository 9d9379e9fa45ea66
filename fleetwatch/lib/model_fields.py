"""Kinds of columns that several rooms' tables have."""

from django.db import models


def text(longest: int, help_text: str = "") -> "models.CharField[str, str]":
    """A text that may be missing."""
    return models.CharField(max_length=longest, blank=True, default="", help_text=help_text)
