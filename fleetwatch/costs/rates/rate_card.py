"""The rate card: of each thing that has a rate what holds now, and what held and will."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, Q

from fleetwatch.costs.models import GPURate, Rate
from fleetwatch.costs.rates import book
from fleetwatch.costs.rates.subjects import subject_name


@dataclass(frozen=True, slots=True)
class CardLine:
    """One subject's rates, each once; `gpus` are those that its rate in force prices now, of which
    no more specific rate takes any.
    """

    name: str
    in_force: Rate | None
    past: Sequence[Rate]  # the newest first
    coming: Sequence[Rate]  # the next first
    gpus: int

    @property
    def change_ratio(self) -> Decimal | None:
        """By how much the rate in force differs from the one before; None without one, or where the
        two can't be compared.
        """
        if self.in_force is None or not self.past:
            return None
        before = self.past[0]
        if before.currency != self.in_force.currency or not before.price_per_gpu_hour:
            return None
        return self.in_force.price_per_gpu_hour / before.price_per_gpu_hour - 1


@dataclass(frozen=True, slots=True)
class RateCard:
    """So many lines as were asked for, and how many there are beside."""

    lines: Sequence[CardLine]
    left_off: int


def rate_card(now: datetime, *, most: int) -> RateCard:
    """What holds now and of what GPUs, and the history of each rate; lines in the rate book's
    order, what holds now first.
    """
    gpus = _priced_gpus(now)
    by_subject: dict[str, list[Rate]] = defaultdict(list)
    for rate in book.rates():
        by_subject[subject_name(rate)].append(rate)
    lines = [card_line(name, rates, gpus, now) for name, rates in by_subject.items()]
    lines.sort(key=lambda line: line.in_force is None)
    return RateCard(lines[:most], max(0, len(lines) - most))


def card_line(name: str, rates: Iterable[Rate], gpus: Mapping[int, int], now: datetime) -> CardLine:
    """The rates of one subject, told apart by the moment; `gpus` by the rate that prices them."""
    ordered = sorted(rates, key=lambda rate: rate.valid_from)
    past = [rate for rate in ordered if rate.valid_to is not None and rate.valid_to <= now]
    coming = [rate for rate in ordered if rate.valid_from > now]
    held = [rate for rate in ordered if rate not in past and rate not in coming]
    in_force = held[0] if held else None
    return CardLine(name, in_force, past[::-1], coming, gpus.get(in_force.pk, 0) if in_force else 0)


def _priced_gpus(now: datetime) -> dict[int, int]:
    """How many whole GPUs each rate prices now."""
    in_force = GPURate.objects.filter(
        Q(valid_to=None) | Q(valid_to__gt=now), valid_from__lte=now, gpu__parent=None
    )
    return dict(in_force.values_list("rate_id").annotate(Count("gpu_id")))
