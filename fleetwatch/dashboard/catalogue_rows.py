"""Every cause with what it took: parts of what was wasted, or capacity that no job held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.dashboard.waste_causes import CauseLine, cause_lines
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.cause_totals import Saving, together, total
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, OF_CAPACITY, UNDETERMINED, WELL_CODES
from fleetwatch.diagnosis.findings.inbox import RECOVERABLE
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.figures.selectors import Breakdown, Group

WEEK = 7  # days: the catalogue's period
DAYS = 30  # of a month that goes on so


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A cause, the time that it took (potential too), the dollars wasted by it and those of
    potential waste, what open and snoozed findings of it could save of both, and the capacity it
    took; None where it takes none of that. `beside` of what has no known cause: what of it was
    lost beside work of which cause.
    """

    cause: Cause
    taken_ms: int
    wasted_usd: Decimal | None
    potential_usd: Decimal | None
    saving: Saving | None
    capacity: Saving | None
    beside: Sequence[tuple[Cause, Group]]

    @property
    def per_month(self) -> Saving | None:
        """The saving in 30 days, at the rate of the period."""
        return None if self.saving is None else a_month(self.saving)

    @property
    def has_taken(self) -> bool:
        """Whether it took any time, with a rate or without, or could save any."""
        savings = (self.saving, self.capacity)
        return self.taken_ms > 0 or any(each is not None and each.high_ms for each in savings)


def a_month(saving: Saving) -> Saving:
    """What was of a week, in 30 days."""
    return Saving(
        saving.low_ms * DAYS // WEEK,
        saving.high_ms * DAYS // WEEK,
        saving.low_usd * DAYS / WEEK,
        saving.high_usd * DAYS / WEEK,
    )


def catalogue_rows(
    waste: Breakdown, places: Sequence[Line], of_jobs: Mapping[str, Saving]
) -> list[CatalogueRow]:
    """In the order of evaluation: their wasted dollars sum to the breakdown's. What works well
    wastes nothing: what was lost beside it has no known cause.
    """
    lines = {line.group.key: line for line in cause_lines(waste.lines, waste.totals)}
    beside = [(BY_CODE[group.key], group) for group in waste.lines if group.key in WELL_CODES]
    return [
        CatalogueRow(
            cause,
            *_taken(lines.get(cause.code)),
            _saving(cause, places, of_jobs),
            _lost(cause, places),
            beside if cause.code == UNDETERMINED else (),
        )
        for cause in CATALOGUE
    ]


def _taken(line: CauseLine | None) -> tuple[int, Decimal | None, Decimal | None]:
    """The time that it took, and its dollars wasted and of potential waste."""
    if line is None:
        return 0, None, None
    totals = line.group.totals
    return sum(totals.waste_ms.values()), totals.wasted_usd, totals.waste_usd["potential"]


def _lost(cause: Cause, places: Sequence[Line]) -> Saving | None:
    """The capacity that machines lost by it."""
    of_places = [each.caused for each in places if each.finding.cause == cause.code]
    return total(of_places).saving if cause.code in OF_CAPACITY and of_places else None


def most_wasted_first(rows: Sequence[CatalogueRow]) -> list[CatalogueRow]:
    """Those that wasted nothing last, in their order."""
    return sorted(rows, key=lambda row: -(row.wasted_usd or 0))


def _saving(cause: Cause, places: Sequence[Line], of_jobs: Mapping[str, Saving]) -> Saving | None:
    """Of jobs and, of what is a part of what was wasted, of machines."""
    several = [of_jobs[cause.code]] if cause.code in of_jobs else []
    if cause.code not in OF_CAPACITY:
        several += [
            each.caused.saving
            for each in places
            if each.finding.cause == cause.code and each.status in RECOVERABLE
        ]
    return together(several) if several else None
