"""The demo on a hub of its own: loaded on an empty one, and taken away as a whole.

While it is there no real node gets in (ingest.tokens) and no message goes out (notify), so that
whatever there is of nodes, jobs and teams is the demo's.
"""

from datetime import datetime

from django.apps import apps
from django.db import transaction
from django.db.models import ForeignKey, Model
from psycopg.sql import SQL, Identifier

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Organisation, Team
from fleetwatch.accounts.selectors import locked_organisation, organisation
from fleetwatch.alerts.models import Silence
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.models import Commitment
from fleetwatch.ingest.models import AgentToken
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Job
from fleetwatch.lib.sql import LockHeldError, awaited_lock, execute
from fleetwatch.reports.models import Invoice, InvoiceSKU

LOCK = "demo.keep_going"  # of who draws it
PATIENCE_S = 15.0  # with who draws some of it: that takes some seconds
# what is the demo's where it is loaded; all else is the organisation's and stays, but rows that
# belong to one of these
ITS_OWN = {
    "accounts": {"Team", "Membership"},
    "inventory": {"Node", "Departure", "Intake", "GPU", "Stay"},
    "jobs": {
        *("Job", "JobRecord", "JobChange", "ChangedJob", "Allocation", "RunEnd"),
        *("SourceReport", "GPUProcess"),
    },
    "telemetry": {
        *("ReceivedSequence", "Batch", "SealMark", "TouchedHour", "LastPosting", "LateHour"),
        *("Chunk", "DayMatrix", "HealthEvent"),
    },
    "ingest": {"AgentToken", "Enrollment", "NodeOrder"},
    "ledger": {
        *("Entry", "ClosedMonth", "Adjustment", "HourRuns", "IdlePower", "NodeDay", "StateDay"),
        *("HourCells", "Posted"),
    },
    "costs": {
        *("Commitment", "NodePlace", "SummedDay", "FleetDay", "DayHours", "Attribution"),
        "OwnerChange",
    },
    "budgets": {"Budget", "SpendDay", "Outlook", "Anomaly"},
    "diagnosis": {
        *("NodeCells", "DiagnosedDay", "CauseEntry", "CapacityEntry", "Finding", "Said", "Fix"),
    },
    "notify": {"Delivery", "RemoteMessage"},
    "alerts": {
        *("IncidentGroup", "Incident", "IncidentEvent", "Notification", "Silence", "BackTestRun"),
    },
    "actions": {"Action"},
    "reports": {
        *("Report", "StatementApproval", "StatementRecipient", "MonthRun", "ReportPart"),
        *("Invoice", "InvoiceLine", "InvoiceSKU", "InvoiceAdjustment"),
    },
    "finance": {"PolicyTrial"},
}

# what an organisation has of these is its own, and would go with the demo
IN_USE = (Node, Job, Team, Budget, Commitment, Invoice, InvoiceSKU, Silence)


class DemoError(ValueError):
    """Why the demo is not loaded, or not removed, now."""


def mark_hub() -> None:
    """The hub was started as a demo: from now on all of its pages say so."""
    row = organisation()
    row.is_demo_hub = True
    row.save(update_fields=["is_demo_hub"])


def may_load() -> bool:
    """Whether the hub is empty: nobody has sent anything, and nobody set up what is removed with
    the demo.
    """
    return not any(model._default_manager.exists() for model in IN_USE)


@transaction.atomic
def load(now: datetime) -> None:
    """From now on the demo's fleet is drawn (services.keep_going). Raises DemoError on a hub that
    is not empty.
    """
    row = locked_organisation()
    if row.demo_since is not None:
        raise DemoError("The demo is loaded already.")
    if not may_load():
        raise DemoError(
            "The demo is for an empty hub: this one has nodes, jobs, teams, budgets, commitments,"
            " invoices or silences."
        )
    _set_since(row, now)
    record("demo.load")


def remove() -> None:
    """Takes away all nodes, jobs and teams, and whatever is of them. Raises DemoError where no demo
    is loaded, while some of it is drawn for longer than one waits, and where anything speaks for a
    real node.
    """
    try:
        with awaited_lock(LOCK, patience_s=PATIENCE_S), transaction.atomic():
            _remove()
    except LockHeldError:
        raise DemoError(
            "The demo is being drawn at this moment: try again in some seconds."
        ) from None


def _remove() -> None:
    row = locked_organisation()
    if row.demo_since is None:
        raise DemoError("No demo is loaded.")
    if AgentToken.objects.exists():  # none can have been made: a demo's nodes have none
        raise DemoError("There are tokens of real nodes: nothing is removed.")
    _take_away()
    _set_since(row, None)
    record("demo.remove")


def _set_since(row: Organisation, moment: datetime | None) -> None:
    row.demo_since = moment
    row.save(update_fields=["demo_since"])


def _take_away() -> None:
    """Foreign keys are looked at when the transaction ends: what of the organisation still named
    one of these rows would keep all of them.
    """
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    for model in models:
        table = Identifier(model._meta.db_table)
        if _is_its_own(model):
            execute(SQL("DELETE FROM {}").format(table))
            continue
        for column in _columns_of_its_own(model):
            named = Identifier(column)
            execute(SQL("DELETE FROM {} WHERE {} IS NOT NULL").format(table, named))


def _columns_of_its_own(model: type[Model]) -> list[str]:
    """Of a table that stays, where it names rows that go."""
    return [
        field.column
        for field in model._meta.concrete_fields
        if isinstance(field, ForeignKey) and _is_its_own(field.related_model)
    ]


def _is_its_own(model: type[Model]) -> bool:
    return model.__name__ in ITS_OWN.get(model._meta.app_label, ())
