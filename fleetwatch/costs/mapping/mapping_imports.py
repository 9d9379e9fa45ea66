"""Mapping rules by the file: all of it or nothing, and what it would change in dollars before
anything is written.
"""

from datetime import datetime
from functools import partial

from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import difference
from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.mapping import attribution, mapping_csv, mappings, rule_terms
from fleetwatch.costs.mapping.mapping_csv import Row
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, MappingError
from fleetwatch.costs.models import MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.lib.csv_rows import Fault, refuse

# What makes two rules one; a note does not
_Said = tuple[Conditions, Gives, int, datetime, datetime | None]


@transaction.atomic
def import_mappings(content: bytes, *, now: datetime, by: str = "") -> Imported:
    """Adds every rule of the file; jobs belong where it says at once. Twice is once: a rule that
    stands is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    rows, faults = mapping_csv.read(content, zone())
    with mappings.writing():
        standing = {_said(rule) for rule in attribution.rules()}
        new = {_wanted(row): row for row in reversed(rows) if _wanted(row) not in standing}
        made = []
        for row in reversed(new.values()):
            try:
                made.append(_create(row, now=now, by=by))
            except MappingError as error:
                faults.append(Fault(row.line, error.field, str(error)))
        refuse(faults)
        attribution.attribute(attribution.touched(made))
    return Imported(set=len(made), stood=len(rows) - len(made))


def dry_run(content: bytes, *, now: datetime) -> DryRun:
    """What import_mappings would change in the dollars of the last closed 30 days, per team and
    what else the file gives.

    Nothing is written. Raises RefusedError as it does.
    """
    rows, _ = mapping_csv.read(content, zone())
    owners = [
        owner
        for owner in rule_terms.GIVES
        if owner == "team" or any(getattr(row.gives, owner) for row in rows)
    ]
    return difference.dry_run(partial(import_mappings, content, now=now), now, owners=owners)


def _create(row: Row, *, now: datetime, by: str) -> MappingRule:
    return mappings.create(
        mappings.NewRule(
            row.asks,
            row.gives,
            valid_from=row.valid_from or BEGINNING,
            valid_to=row.valid_to,
            priority=row.priority,
            note=row.note,
        ),
        by=by,
        now=now,
    )


def _wanted(row: Row) -> _Said:
    return row.asks, row.gives, row.priority, row.valid_from or BEGINNING, row.valid_to


def _said(rule: MappingRule) -> _Said:
    return (
        attribution.conditions(rule),
        attribution.gives(rule),
        rule.priority,
        rule.valid_from,
        rule.valid_to,
    )
