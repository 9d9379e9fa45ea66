"""Commitments in the read API: what was committed to, and what of it was used, there and missing in
a period.
"""

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import Answer, Joined, NameOf, TextOrNone, Usd
from fleetwatch.api.request_period import asked
from fleetwatch.finance.commitments import commitments as every_commitment
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.coverage import missing_usd

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
    committed_usd: Usd
    used_usd: Usd
    unheld_usd: Usd
    missing_usd: Usd
    rate_book_usd: Usd
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
    gpu_model: NameOf
    pool: TextOrNone
    node_class: TextOrNone
    region: TextOrNone
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
    cost_usd: Usd


class CommitmentPage(schemas.ListedInPeriod[CommitmentRow]):
    """All commitments. Their figures are of counted_from to counted_to: posted hours that the
    ledger knows.

    The ledger's dollars of the period and `missing_usd` are what is paid.
    """

    counted_from: datetime | None
    counted_to: datetime | None
    missing_usd: float
    above: list[AboveRow]


@router.get("/commitments", operation_id="listCommitments", response=CommitmentPage)
def commitments(
    request: HttpRequest, period: schemas.PeriodAsked, paging: schemas.Paging
) -> Answer:
    """Every commitment there is or was, with what of it was used, there and missing in the
    period.
    """
    wanted = asked(request)
    covered = coverage(wanted.interval, now=timezone.now())
    by_id = {commitment.pk: line for commitment, line in covered.lines}
    counted = covered.interval
    return {
        **wanted.echo(),
        "counted_from": counted and counted.start,
        "counted_to": counted and counted.end,
        "missing_usd": float(missing_usd(by_id.values())),
        "above": covered.above,
        **wanted.listed(
            every_commitment(),
            paging.limit,
            lambda each: Joined({"in_period": by_id.get(each.pk)}, each),
        ),
    }
