"""`manage.py import_rates FILE [--dry-run]`: sets the rates of a CSV file; exit 1 when it was
refused, 2 when it can't be read.
"""

from fleetwatch.costs.management.importing import ImportCommand
from fleetwatch.costs.rates import imports
from fleetwatch.costs.rates.rate_csv import FORM


class Command(ImportCommand):
    form = FORM
    help = (
        f"Sets the rates of a CSV file, all or none of them. Columns: {', '.join(FORM.columns)}"
        " (docs/money.md)."
    )
    act = staticmethod(imports.import_rates)
    look = staticmethod(imports.dry_run)
