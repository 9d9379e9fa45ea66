"""Totals put together: a breakdown's lines are the whole, so that the ledger is read once. Pure."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fleetwatch.figures.totals import Totals, nothing


def together(parts: Sequence[Totals]) -> Totals:
    """The sum of the parts; energy is what was read of it, None where nobody read any."""
    if len(parts) == 1:
        return parts[0]
    all_parts = [nothing(), *parts]
    return Totals(
        **{
            field.name: _together([getattr(part, field.name) for part in all_parts])
            for field in fields(Totals)
        }
    )


def _together(values: Sequence[Any]) -> Any:
    """The sum of amounts, by key of amounts by key; of yes and no, whether one is yes."""
    if isinstance(values[0], dict):
        return {key: sum(amounts[key] for amounts in values) for key in values[0]}
    if isinstance(values[0], bool):
        return any(values)
    read = [value for value in values if value is not None]
    return sum(read) if read else None
