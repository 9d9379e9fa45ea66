"""What is paid beside the ledger's dollars in a month, by the room above that settings name."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.utils.module_loading import import_string

from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.statement import Shape


@dataclass(frozen=True, slots=True)
class Beside:
    """`lines`: the part of the fleet's report that tells them, of a month, its name, and the
    dollars of the ledger. `has_lines`: whether there are any, of a month and its name. `digest`: of
    what a month's lines are made of.
    """

    lines: Callable[[Interval, str, Decimal], Shape]
    has_lines: Callable[[Interval, str], bool]
    digest: Callable[[Interval], str]


def beside() -> Beside:
    """Who says what is paid beside the ledger."""
    named: Beside = import_string(settings.BESIDE_THE_LEDGER)
    return named
