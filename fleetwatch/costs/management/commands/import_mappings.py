"""`manage.py import_mappings FILE [--dry-run]`: adds the mapping rules of a CSV file; exit 1 when
refused, 2 when it can't be read.
"""

from fleetwatch.costs.management.importing import ImportCommand
from fleetwatch.costs.mapping import mapping_imports
from fleetwatch.costs.mapping.mapping_csv import FORM


class Command(ImportCommand):
    form = FORM
    help = (
        "Adds the mapping rules of a CSV file, all or none of them. Columns:"
        f" {', '.join(FORM.columns)} (docs/money.md)."
    )
    act = staticmethod(mapping_imports.import_mappings)
    look = staticmethod(mapping_imports.dry_run)
