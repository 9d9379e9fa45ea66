"""Every cause with what it took: parts of what was wasted, or capacity that no job held."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.dashboard.waste_causes import cause_lines
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.cause_totals import Saving, total
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, OF_CAPACITY, UNDETERMINED, WELL_CODES
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.figures.selectors import Breakdown, Group


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A cause, the dollars wasted by it and the capacity it took; None where it takes none of
    that. `beside` of what has no known cause: what of it was lost beside work of which cause.
    """

    cause: Cause
    wasted_usd: Decimal | None
    capacity: Saving | None
    beside: Sequence[tuple[Cause, Group]]


def catalogue_rows(waste: Breakdown, places: Sequence[Line]) -> list[CatalogueRow]:
    """In the order of evaluation: their wasted dollars sum to the breakdown's. What works well
    wastes nothing: what was lost beside it has no known cause.
    """
    lines = {line.group.key: line for line in cause_lines(waste.lines, waste.totals)}
    beside = [(BY_CODE[group.key], group) for group in waste.lines if group.key in WELL_CODES]
    rows = []
    for cause in CATALOGUE:
        line = lines.get(cause.code)
        of_places = [each.caused for each in places if each.finding.cause == cause.code]
        rows.append(
            CatalogueRow(
                cause,
                line.group.totals.wasted_usd if line else None,
                total(of_places).saving if cause.code in OF_CAPACITY and of_places else None,
                beside if cause.code == UNDETERMINED else (),
            )
        )
    return rows
