"""A column that is one of thousands: one array as the only parameter."""

from collections.abc import Iterable

from django.db.models.expressions import RawSQL


def any_text(values: Iterable[str]) -> RawSQL:
    """For filter(key__in=any_text(keys)): of a list each value is a parameter, which for ten
    thousand takes longer than to find them.
    """
    return RawSQL("SELECT unnest(%s::text[])", [list(values)])


def any_id(values: Iterable[int]) -> RawSQL:
    """The same of ids."""
    return RawSQL("SELECT unnest(%s::bigint[])", [list(values)])
