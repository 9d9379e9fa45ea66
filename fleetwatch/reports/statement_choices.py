"""How statements tell free capacity: chosen once for all of them, and kept with each version that
was made by it.
"""

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.costs.spreading import OWN_LINE, WAYS
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.reports.models import StatementChoice


def free_capacity() -> str:
    """One of WAYS; a line of its own where nobody chose."""
    return StatementChoice.objects.values_list("free_capacity", flat=True).first() or OWN_LINE


@transaction.atomic
def choose_free_capacity(way: str) -> None:
    """Statements that are made from now on tell it that way; what is stored stays.

    Raises RefusedFieldError for another way.
    """
    if way not in WAYS:
        raise RefusedFieldError(f"free capacity is told {', '.join(WAYS)}, not {way[:40]!r}")
    StatementChoice.objects.update_or_create(pk=1, defaults={"free_capacity": way})
    record("report.free_capacity", way)
