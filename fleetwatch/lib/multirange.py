"""Sets of integers as Postgres int8multirange: unions that do not care about order.

The database adds to them (`SET asserted = asserted + int8multirange(...)`), so that
replays and late data change nothing and no two writers lose each other's part.
"""

from typing import Any

from django.db import models
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

Spans = list[tuple[int, int]]


def to_spans(value: "Multirange[int] | None") -> Spans:
    """Half-open (lower, upper) pairs, ascending and disjoint."""
    if value is None:
        return []
    return [
        (part.lower, part.upper)
        for part in value
        if part.lower is not None and part.upper is not None
    ]


def from_spans(spans: Spans) -> "Multirange[int]":
    """The multirange that covers exactly these half-open pairs; empty ones are dropped."""
    return Multirange([Range(lower, upper, "[)") for lower, upper in spans if lower < upper])


class Int8MultiRangeField(models.Field):  # type: ignore[type-arg]
    """A column of half-open integer spans; in Python a list of (lower, upper)."""

    def db_type(self, connection: Any) -> str:
        return "int8multirange"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Spans:
        return to_spans(value)

    def get_prep_value(self, value: Any) -> Any:
        if value is None or isinstance(value, Multirange):
            return value
        return from_spans(value)
