"""Commitments in the read API: what was committed to, and what of it was used, there and missing in
a period.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from fleetwatch.api import schemas
from fleetwatch.api.request_period import asked
from fleetwatch.costs.models import Commitment
from fleetwatch.figures.pricing import usd
from fleetwatch.finance.commitments import commitments as every_commitment
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.coverage import Above, Covered, missing_usd

Answer = dict[str, Any]

router = Router(tags=["costs"])


class CommittedTime(Schema):
    """GPU time and dollars of a commitment in the period. used + unheld + missing = committed, in
    both.

    `used`: a job held it. `unheld`: it was there and no job held it; its time is in the ledger's
    free, orphaned, unavailable and unobserved. `missing`: no GPU in the ledger; its dollars are in
    no figure of the ledger. `rate_book_usd` is what the rate book says of used and unheld time.
    """

    committed_ms: int
    used_ms: int
    unheld_ms: int
    missing_ms: int
    committed_usd: float
    used_usd: float
    unheld_usd: float
    missing_usd: float
    rate_book_usd: float
    coverage: float | None
    utilisation: float | None


class CommitmentRow(Schema):
    """One commitment; `in_period` is null where none of the hours asked for is both committed and
    known to the ledger.

    The price is per GPU-hour or, for all GPUs, per month: the other one is null. "pool",
    "node_class" and "region" narrow it.
    """

    id: int
    name: str
    gpu_model: str
    pool: str | None
    node_class: str | None
    region: str | None
    gpus: int
    price_per_gpu_hour: float | None
    amount_per_month: float | None
    currency: str
    valid_from: datetime
    valid_to: datetime | None
    source: str
    in_period: CommittedTime | None


class AboveRow(Schema):
    """GPU time of a model that a commitment could have covered and none did, at its own rates: it
    is in the ledger's dollars.
    """

    gpu_model: str
    gpu_ms: int
    cost_usd: float


class CommitmentPage(schemas.Period):
    """All commitments. Their figures are of counted_from to counted_to: posted hours that the
    ledger knows.

    The ledger's dollars of the period and `missing_usd` are what is paid.
    """

    counted_from: datetime | None
    counted_to: datetime | None
    missing_usd: float
    above: list[AboveRow]
    rows: list[CommitmentRow]
    next_cursor: str | None


@router.get("/commitments", operation_id="listCommitments", response=CommitmentPage)
def commitments(
    request: HttpRequest, period: Query[schemas.PeriodQuery], paging: Query[schemas.Page]
) -> Answer:
    """Every commitment there is or was, with what of it was used, there and missing in the
    period.
    """
    wanted = asked(request)
    found = coverage(wanted.interval, now=timezone.now())
    by_id = {commitment.pk: line for commitment, line in found.lines}
    page, following = wanted.page(every_commitment(), paging.limit)
    counted = found.interval
    return wanted.echo() | {
        "counted_from": counted.start if counted else None,
        "counted_to": counted.end if counted else None,
        "missing_usd": float(missing_usd(by_id.values())),
        "above": [_above(each) for each in found.above],
        "rows": [_row(each, by_id.get(each.pk)) for each in page],
        "next_cursor": following,
    }


def _row(each: Commitment, line: Covered | None) -> Answer:
    names = ("name", "gpus", "currency", "valid_from", "valid_to", "source")
    return {name: getattr(each, name) for name in names} | {
        "id": each.pk,
        "gpu_model": each.gpu_model.name,
        "pool": each.pool or None,
        "node_class": each.node_class or None,
        "region": each.region or None,
        "price_per_gpu_hour": (
            None if each.price_per_gpu_hour is None else float(each.price_per_gpu_hour)
        ),
        "amount_per_month": None if each.amount_per_month is None else float(each.amount_per_month),
        "in_period": None if line is None else _time(line),
    }


def _time(line: Covered) -> Answer:
    times = {
        name: getattr(line, name)
        for name in (
            "committed_ms",
            "used_ms",
            "unheld_ms",
            "missing_ms",
            "coverage",
            "utilisation",
        )
    }
    dollars = ("committed_usd", "used_usd", "unheld_usd", "missing_usd", "rate_book_usd")
    return times | {name: float(usd(getattr(line, name))) for name in dollars}


def _above(each: Above) -> Answer:
    return {
        "gpu_model": each.gpu_model,
        "gpu_ms": each.gpu_ms,
        "cost_usd": float(usd(each.cost_usd)),
    }
