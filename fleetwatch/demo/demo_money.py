"""What the demo's finance people entered beside its history: budgets, commitments, and the invoice
of its provider. All amounts follow from what the simulated fleet spent.

Entered by the same functions as on the pages; where any of a kind stands, nothing is added to it.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain, repeat

from django.db.models import Count

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets.budgets import WHOLE_FLEET, set_budget
from fleetwatch.budgets.models import Budget
from fleetwatch.budgets.selectors import running_month
from fleetwatch.costs.models import Commitment
from fleetwatch.demo.cast import acting_as
from fleetwatch.figures import boundaries
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.pricing import CENT
from fleetwatch.finance.committing import commit
from fleetwatch.finance.invoice_csv import COLUMNS, FINEST_HOURS
from fleetwatch.finance.invoices import import_invoice
from fleetwatch.finance.kinds import KindTime, time_of_kinds
from fleetwatch.inventory.models import GPUModel
from fleetwatch.lib.actor import actor
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.reports import months
from fleetwatch.reports.models import Invoice

FINANCE = "fiona"  # of the cast, where it is there: who enters money
PROVIDER = "Aurora Cloud (invented)"
WEEK = timedelta(days=7)
YEAR_DAYS = 365
# what each may spend of what its month will cost by the last week's days; OVER is spent already
OVER = Decimal(0)
SHARES = {
    WHOLE_FLEET: Decimal("1.04"),
    "nlp": Decimal("1.02"),
    "vision": OVER,
    "research": Decimal("1.15"),
    "science": Decimal("1.30"),
    "serving": Decimal("1.20"),
    "speech": Decimal("1.40"),
}
LEAST_DAYS_BILLED = 3  # of last month in the ledger: of fewer the running month is billed


@dataclass(frozen=True, slots=True)
class Promise:
    """A commitment of so many GPUs more than there are, at a part of the list price."""

    name: str
    more: int
    part: Decimal


# of the models that the fleet has most of
PROMISES = (
    Promise("reserved, 1 year", -8, Decimal("0.70")),
    Promise("capacity block", 1, Decimal("0.85")),
)


@dataclass(frozen=True, slots=True)
class Charged:
    """How a provider bills a GPU model otherwise than the ledger counts it."""

    hours: Decimal
    price: Decimal
    note: str


# the dearest GPU model first; the others are billed as they are counted
CHARGED = (
    Charged(Decimal("1.006"), Decimal(1), "billed by the started hour"),
    Charged(Decimal(1), Decimal("0.97"), "negotiated price"),
)
AS_COUNTED = Charged(Decimal(1), Decimal(1), "on demand")
# parts of all usage
BESIDE_USAGE = (
    ("Purchase", "Business support", Decimal("0.02")),
    ("Credit", "Service credit", Decimal("-0.004")),
)


def enter_money(now: datetime) -> dict[str, int]:
    """How many budgets, commitments and invoices were entered. Safe again: of what stands, or
    stood until somebody removed the others of its kind, nothing is entered twice.
    """
    finance = User.objects.filter(username=FINANCE).first()
    with nullcontext() if finance is None else acting_as(finance):
        return {
            "budgets": 0 if Budget.objects.exists() else _set_budgets(now),
            "commitments": 0 if Commitment.objects.exists() else _commit(now),
            "invoices": 0 if Invoice.objects.exists() else _import_invoice(now),
        }


def _set_budgets(now: datetime) -> int:
    month = running_month(now)
    spent = _spent(month.so_far)
    days_left = (month.rest.end - month.rest.start) / timedelta(days=1) if month.rest else 0
    daily = _daily(now)
    teams = {team.slug: team for team in Team.objects.filter(slug__in=SHARES)}
    amounts = {
        slug: budget_of(share, spent.get(slug, Decimal(0)), daily[slug] * Decimal(days_left))
        for slug, share in SHARES.items()
        if daily.get(slug) and (slug == WHOLE_FLEET or slug in teams)
    }
    for slug, amount in amounts.items():
        budget = Budget(team=teams.get(slug), month=month.first, amount=amount, repeats=True)
        set_budget(budget, now=now, by=actor().name)
    return len(amounts)


def budget_of(share: Decimal, spent: Decimal, to_come: Decimal) -> Decimal:
    """A share of the whole month in three figures; OVER: nine tenths of what is spent, at least
    half of the month. Pure.
    """
    expected = spent + to_come
    amount = max(expected / 2, spent * Decimal("0.9")) if share == OVER else expected * share
    step = Decimal(10) ** (amount.adjusted() - 2)
    return max(CENT, round(amount / step) * step).quantize(CENT)


def _spent(interval: Interval | None) -> dict[str, Decimal]:
    """Dollars by team, and of the whole fleet."""
    groups = figures.totals_by(interval, "team") if interval else []
    whole = sum((group.totals.cost_usd for group in groups), Decimal(0))
    return {group.key: group.totals.cost_usd for group in groups} | {WHOLE_FLEET: whole}


def _daily(now: datetime) -> dict[str, Decimal]:
    """Dollars of a day by team, of the last week's whole days in the ledger; nothing where there
    is no such day.
    """
    began = figures.ledger_began()
    today = boundaries.midnight(now, zone())
    first = max(today - WEEK, boundaries.midnight(began or now, zone(), days=1))
    if first >= today:
        return {}
    days = Decimal((today - first) / timedelta(days=1))
    return {slug: usd / days for slug, usd in _spent(Interval(first, today)).items()}


def _commit(now: datetime) -> int:
    """Of the two GPU models with the most GPUs, from the ledger's first midnight for a year."""
    began = figures.ledger_began()
    if began is None:
        return 0
    starts = boundaries.midnight(began, zone())
    prices = _prices(time_of_kinds(Interval(starts, boundaries.midnight(now, zone(), days=1))))
    priced = [(model, gpus) for model, gpus in _most_gpus() if model.name in prices]
    promises = list(zip(priced, PROMISES, strict=False))
    for (model, gpus), promise in promises:
        commitment = Commitment(
            name=f"{model.name}: {promise.name}",
            gpu_model=model,
            gpus=max(1, gpus + promise.more),
            price_per_gpu_hour=(prices[model.name] * promise.part).quantize(CENT),
            valid_from=starts,
            valid_to=boundaries.midnight(starts, zone(), days=YEAR_DAYS),
            source=PROVIDER,
        )
        commit(commitment, now=now)
    return len(promises)


def _most_gpus() -> list[tuple[GPUModel, int]]:
    """The GPU models with how many GPUs the fleet has of them, the most first."""
    in_use = GPUModel.objects.filter(gpus__parent=None, gpus__retired_ms=None)
    counted = in_use.annotate(count=Count("gpus")).order_by("-count", "name")
    return [(model, model.count) for model in counted]


def _prices(times: Sequence[KindTime]) -> dict[str, Decimal]:
    """Dollars of a GPU-hour by GPU model."""
    return {
        time.kind.gpu_model: time.usd_per_gpu_hour
        for time in times
        if time.usd_per_gpu_hour is not None
    }


def _import_invoice(now: datetime) -> int:
    month = _billed_month(now)
    rows = [] if month is None else list(_charges(time_of_kinds(month.interval)))
    if month is None or not rows:
        return 0
    common = {"month": month.name, "issuer": PROVIDER, "currency": "USD"}
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(common | row for row in rows)
    name = f"aurora-{month.name}.csv"
    import_invoice(file.getvalue().encode(), month.name, now=now, by=actor().name, file_name=name)
    return 1


def _billed_month(now: datetime) -> months.Month | None:
    """The last month, where the ledger has days of it, else the running one as far as it is over;
    None before a day is.
    """
    began = figures.ledger_began()
    if began is None:
        return None
    names = months.names(began, now=now, zone=zone())
    several = [months.month(name, now=now, zone=zone()) for name in names]
    enough = timedelta(days=LEAST_DAYS_BILLED)
    over = [month for month in several if month.is_over and month.interval.end - began >= enough]
    return next(iter([*over, *several]), None)


def _charges(times: Sequence[KindTime]) -> Iterator[dict[str, str]]:
    """The lines of the provider's bill: usage by GPU model, support and a credit; nothing where
    nothing has a price.
    """
    prices = _prices(times)
    dearest = sorted(prices, key=lambda model: (-prices[model], model))
    usage = [
        _usage(model, _hours(times, model), prices[model], charged)
        for model, charged in zip(dearest, chain(CHARGED, repeat(AS_COUNTED)), strict=False)
    ]
    yield from usage
    total = sum((Decimal(line["amount"]) for line in usage), Decimal(0))
    for category, name, part in BESIDE_USAGE if total else ():
        amount = (total * part).quantize(CENT)
        yield {"description": name, "category": category, "amount": str(amount)}


def _hours(times: Sequence[KindTime], model: str) -> Decimal:
    """GPU-hours of that GPU model."""
    counted_ms = sum(sum(time.capacity_ms) for time in times if time.kind.gpu_model == model)
    return Decimal(counted_ms) / HOUR_MS


def _usage(model: str, counted: Decimal, price: Decimal, charged: Charged) -> dict[str, str]:
    hours = (counted * charged.hours).quantize(FINEST_HOURS)
    return {
        "gpu_model": model,
        "description": f"{model}, {charged.note}",
        "gpu_hours": str(hours),
        "amount": str((hours * price * charged.price).quantize(CENT)),
    }
