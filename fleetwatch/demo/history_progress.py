"""How much of the demo's history has come: every page of a demo says it until all is there."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts.selectors import is_demo, organisation
from fleetwatch.demo import fleet
from fleetwatch.demo.services import LOADED_DAYS
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.figures.selectors import ledger_began
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class HistoryProgress:
    """`days` of `of_days` are in the figures; of which share of their hours causes are known."""

    days: int
    of_days: int
    diagnosed: float


def history_progress(now: datetime) -> HistoryProgress | None:
    """None where there is no demo, and once all of its history is posted and diagnosed."""
    if not is_demo():
        return None
    of_days = fleet.DAYS if organisation().is_demo_hub else LOADED_DAYS
    began = ledger_began()
    days = 0 if began is None else min(of_days, (now - began) // timedelta(days=1))
    past = Interval(now - timedelta(days=of_days), now)
    causes = machine_findings.progress(past, now=now)
    if days == of_days and not causes.is_behind:
        return None
    return HistoryProgress(days, of_days, causes.share)


def for_templates(_: HttpRequest) -> dict[str, Callable[[], Any]]:
    """`demo_loading`: asked for by templates that say it, and of a demo alone."""
    return {"demo_loading": lambda: history_progress(timezone.now())}
