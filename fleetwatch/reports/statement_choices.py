"""How statements tell free capacity: chosen once for all of them, and kept with each version that
was made by it.
"""

import structlog
from django.db import transaction

from fleetwatch.costs.spreading import OWN_LINE, WAYS
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.reports.models import StatementChoice

log = structlog.get_logger(__name__)


def free_capacity() -> str:
    """One of WAYS; a line of its own where nobody chose."""
    return StatementChoice.objects.values_list("free_capacity", flat=True).first() or OWN_LINE


def choose_free_capacity(way: str, *, by: str) -> None:
    """Statements that are made from now on tell it that way; what is stored stays.

    Raises RefusedFieldError for another way.
    """
    if way not in WAYS:
        raise RefusedFieldError(f"free capacity is told {', '.join(WAYS)}, not {way[:40]!r}")
    StatementChoice.objects.update_or_create(pk=1, defaults={"free_capacity": way})
    transaction.on_commit(lambda: log.info("free capacity chosen", way=way, by=by))
