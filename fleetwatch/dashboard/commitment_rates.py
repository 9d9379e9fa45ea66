"""Commitments beside the rate that prices their GPU model in the ledger, and the rate that would
bring both together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.costs.rates.rate_card import CardLine, RateCard
from fleetwatch.finance.blended import Blend, Share, blend
from fleetwatch.finance.break_even import ON_DEMAND
from fleetwatch.finance.commitments import commitments, coverage
from fleetwatch.finance.coverage import Covered
from fleetwatch.lib.intervals import DAY_MS, Interval

LATELY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Missing:
    """Of a commitment's GPUs how many were missing over the last day, and `there`; and what is paid
    for the missing ones in a day.
    """

    gpus: int
    there: int
    usd_per_day: Decimal

    @property
    def usd_per_month(self) -> Decimal:
        """In 30 days."""
        return self.usd_per_day * 30


@dataclass(frozen=True, slots=True)
class CommitmentRow:
    """A commitment; `rate` prices its model otherwise (None: it does not, or can't be compared);
    `blend` of it and of GPUs on demand (None: nothing is left on demand, or no such rate is known);
    `missing` None: no whole GPU of it is, or it is not known.
    """

    commitment: Commitment
    rate: Rate | None
    blend: Blend | None
    missing: Missing | None

    @property
    def is_blended(self) -> bool:
        """Whether the rate is the blend already."""
        if self.rate is None or self.blend is None:
            return False
        return self.rate.price_per_gpu_hour == self.blend.price


def commitment_rows(card: RateCard, now: datetime) -> list[CommitmentRow]:
    """Every commitment, by GPU model and beginning."""
    every = list(commitments())
    lines = _lines_of_models(card)
    blends = _blends(every, lines, now)
    missing = _missing(now) if every else {}
    return [
        CommitmentRow(
            each, _priced_otherwise(each, lines), blends.get(each.pk), missing.get(each.pk)
        )
        for each in every
    ]


def _missing(now: datetime) -> dict[int, Missing]:
    """By commitment that holds now what of it was missing over the hours of the last day that are
    posted.
    """
    lines = coverage(Interval(now - LATELY, now), now=now).lines
    holding = [(each, covered) for each, covered in lines if _holds(each, now)]
    seen = {each.pk: _missing_of(each, covered) for each, covered in holding}
    return {pk: missing for pk, missing in seen.items() if missing.gpus}


def _missing_of(commitment: Commitment, covered: Covered) -> Missing:
    days = Decimal(covered.committed_ms) / (commitment.gpus * DAY_MS)
    share = Decimal(covered.missing_ms) / covered.committed_ms
    gpus = round(commitment.gpus * share)
    return Missing(gpus, commitment.gpus - gpus, covered.missing_usd / days)


def _lines_of_models(card: RateCard) -> dict[int, CardLine]:
    """By GPU model the line of the rate that all of it has, where no narrower one holds."""
    return {
        line.in_force.gpu_model_id: line
        for line in card.lines
        if line.in_force
        and line.in_force.gpu_model_id
        and line.in_force.node_class == line.in_force.region == ""
    }


def _is_whole(commitment: Commitment) -> bool:
    """Whether it is of the model, and not of some nodes alone, which a rate of theirs may price;
    and paid by the GPU-hour.
    """
    is_narrow = commitment.pool or commitment.node_class or commitment.region
    return not is_narrow and commitment.price_per_gpu_hour is not None


def _priced_otherwise(commitment: Commitment, lines: Mapping[int, CardLine]) -> Rate | None:
    """The rate in force of the commitment's model, where it is not what is paid."""
    line = lines.get(commitment.gpu_model_id)
    if line is None or line.in_force is None or not _is_whole(commitment):
        return None
    paid = (commitment.price_per_gpu_hour, commitment.currency)
    rate = line.in_force
    return None if (rate.price_per_gpu_hour, rate.currency) == paid else rate


def _blends(
    every: Sequence[Commitment], lines: Mapping[int, CardLine], now: datetime
) -> dict[int, Blend]:
    """By commitment that holds now the blend of all of its model's."""
    holding: dict[int, list[Commitment]] = defaultdict(list)
    for each in every:
        if _is_whole(each) and _holds(each, now):
            holding[each.gpu_model_id].append(each)
    mixed = {model: _blend(several, lines.get(model)) for model, several in holding.items()}
    return {
        each.pk: blended
        for model, several in holding.items()
        for each in several
        if (blended := mixed[model])
    }


def _holds(commitment: Commitment, now: datetime) -> bool:
    return commitment.valid_from <= now and (
        commitment.valid_to is None or now < commitment.valid_to
    )


def _blend(several: Sequence[Commitment], line: CardLine | None) -> Blend | None:
    """Of one model, where its rate in force is on demand, or is that blend already."""
    if line is None or line.in_force is None:
        return None
    rate = line.in_force
    on_demand = next(filter(_is_on_demand, (rate, *line.past)), None)
    if on_demand is None or {each.currency for each in several} != {on_demand.currency}:
        return None
    shares = [
        Share(each.gpus, each.price_per_gpu_hour)
        for each in several
        if each.price_per_gpu_hour is not None
    ]
    blended = blend(shares, gpus=line.gpus, on_demand=on_demand.price_per_gpu_hour)
    is_known = rate is on_demand or (blended and blended.price == rate.price_per_gpu_hour)
    return blended if is_known else None


def _is_on_demand(rate: Rate) -> bool:
    """Whether it says so; shipped list prices are."""
    return rate.is_example or rate.pricing_class == ON_DEMAND
