"""Mapping rules by the file: all of it or nothing, and what it would change in dollars before
anything is written.
"""

from datetime import datetime
from functools import partial

from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import difference
from fleetwatch.costs.changing import open_book
from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.mapping import attribution, mapping_csv, mappings, rule_terms
from fleetwatch.costs.mapping.rule_terms import MappingError
from fleetwatch.lib.csv_files.csv_rows import Fault, refuse


@transaction.atomic
def import_mappings(content: bytes, *, now: datetime, by: str = "") -> Imported:
    """Adds every rule of the file; jobs belong where it says at once. Twice is once: a rule that
    stands is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    rows, faults = mapping_csv.read(content, zone())
    book = open_book(mappings.RULES)
    standing = set(map(attribution.terms, attribution.rules()))
    made = []
    for line, terms in rows:
        if terms in standing:
            continue
        standing.add(terms)
        try:
            made.append(mappings.create(terms, book, by=by, now=now))
        except MappingError as error:
            faults.append(Fault(line, error.field, str(error)))
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
        if owner == "team" or any(getattr(terms.gives, owner) for _, terms in rows)
    ]
    return difference.dry_run(partial(import_mappings, content, now=now), now, owners=owners)
