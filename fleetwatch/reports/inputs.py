"""What a month's reports are made of, as one digest: hours, rates, GPUs, jobs and their teams,
regions, lines beside, budgets.
"""

import hashlib

from fleetwatch.accounts.selectors import zone
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.reports import budgeted, statement_choices
from fleetwatch.reports.beside import beside

# part of the digest: a change of what a report says is a new version of it
FORMAT = 7

_INPUTS = read_statement("reports/sql/inputs.sql")


def digest(month: Interval, *before: Interval) -> str:
    """64 hex digits; the same ones mean that all figures over the month and those before it are
    still the same.
    """
    parts = [
        *(f"{FORMAT} {each.start} {each.end} {_of(each)}" for each in (month, *before)),
        beside().digest(month),
        statement_choices.free_capacity(),
        budgeted.digest(month),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _of(interval: Interval) -> str:
    wanted = {"start": interval.start, "end": interval.end, "zone": zone().key}
    [(digest,)] = execute(_INPUTS, wanted)
    return str(digest)
