"""What other GPUs would change in what is paid: commitments are paid to their end, whatever stands
beside them; all else by the hour. Pure, but for contracts().
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from django.db.models import Q

from fleetwatch.figures.pricing import EXACT, price, sum_if_all_known
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.commitments import commitments, usd_per_gpu_hour
from fleetwatch.planning.what_if import MONTH_MS, ModelReplay, WhatIf

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Contract:
    """So many GPUs at dollars per GPU-hour until a moment (None: with no end), and its name."""

    gpus: int
    usd_per_gpu_hour: Decimal
    ends_at: datetime | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """What a month costs less with other GPUs of a model (negative: more): `by_the_hour` of them
    stop being paid at once, at the model's rate (negative: they begin to), `bound` once their
    contracts end; `already_paid` come that a contract pays for as it is.
    """

    replay: ModelReplay
    by_the_hour: int
    bound: tuple[Contract, ...]
    already_paid: int

    @property
    def rate_usd(self) -> Decimal | None:
        """The model's average rate per GPU-hour; None where nothing changes, or without one."""
        return self.replay.usd_per_gpu_hour if self.replay.saved_ms else None

    @property
    def bound_gpus(self) -> int:
        return sum(each.gpus for each in self.bound)

    @property
    def bound_names(self) -> list[str]:
        """How those contracts are called, each once."""
        return list(dict.fromkeys(each.name for each in self.bound if each.name))

    @property
    def bound_usd_per_gpu_hour(self) -> Decimal | None:
        """What contracts say of a GPU-hour that is bound, on the mean; None where none is."""
        return EXACT.divide(self._bound_usd, self.bound_gpus) if self.bound else None

    @property
    def now_usd(self) -> Decimal | None:
        """While contracts hold; None without a rate."""
        return _month(self.by_the_hour, self.rate_usd)

    @property
    def later_usd(self) -> Decimal | None:
        """Once those contracts have ended: GPUs that they pay for stop at the contract's price,
        and those that come are paid by the hour. None without a rate.
        """
        released_usd = price([(MONTH_MS, self._bound_usd)])
        by_the_hour_usd = _month(self.by_the_hour - self.already_paid, self.rate_usd)
        return None if by_the_hour_usd is None else by_the_hour_usd + released_usd

    @property
    def _bound_usd(self) -> Decimal:
        return sum((each.gpus * each.usd_per_gpu_hour for each in self.bound), ZERO)


def _month(gpus: int, rate_usd: Decimal | None) -> Decimal | None:
    if not gpus:
        return ZERO
    return None if rate_usd is None else price([(gpus * MONTH_MS, rate_usd)])


@dataclass(frozen=True, slots=True)
class ReleasedGPUs:
    """The same of every model."""

    models: list[Released]

    @property
    def now_usd(self) -> Decimal | None:
        """None without a rate."""
        return sum_if_all_known(each.now_usd for each in self.models)

    @property
    def later_usd(self) -> Decimal | None:
        """None without a rate."""
        return sum_if_all_known(each.later_usd for each in self.models)

    @property
    def bound_gpus(self) -> int:
        return sum(each.bound_gpus for each in self.models)

    @property
    def already_paid(self) -> int:
        return sum(each.already_paid for each in self.models)

    @property
    def is_bound(self) -> bool:
        """Whether contracts make another sum of now than of later."""
        return bool(self.bound_gpus or self.already_paid)

    @property
    def free_from(self) -> datetime | None:
        """When the last contract of a bound GPU ends; None: one has no end, or none is bound."""
        ends = [contract.ends_at for each in self.models for contract in each.bound]
        is_open = None in ends or not ends
        return None if is_open else max(at for at in ends if at is not None)


Contracts = Mapping[str, Sequence[Contract]]  # by GPU model


def released(replayed: WhatIf, by_model: Contracts) -> ReleasedGPUs:
    """What the replayed GPUs would change in what is paid."""
    return ReleasedGPUs(
        [_of_model(each, by_model.get(each.gpu_model, ())) for each in replayed.models]
    )


def _of_model(replay: ModelReplay, several: Sequence[Contract]) -> Released:
    committed = sum(each.gpus for each in several)
    fewer = replay.gpus - replay.instead
    spare = max(0, committed - replay.gpus)  # paid for, and not there
    if fewer < 0:
        already_paid = min(-fewer, spare)
        return Released(replay, fewer + already_paid, (), already_paid)
    bound = min(fewer, max(0, committed - replay.instead))
    parts = _parts(several, skip=spare, gpus=bound)
    return Released(replay, fewer - bound, tuple(parts), 0)


def _parts(several: Iterable[Contract], *, skip: int, gpus: int) -> Iterator[Contract]:
    """Which contracts pay for so many GPUs: those that end first, after those of GPUs that are not
    there.
    """
    for each in sorted(several, key=lambda each: each.ends_at or _NEVER):
        absent = min(skip, each.gpus)
        part = min(gpus, each.gpus - absent)
        skip -= absent
        gpus -= part
        if part:
            yield replace(each, gpus=part)


def contracts(at: datetime) -> Contracts:
    """The commitments that hold at the moment, by GPU model."""
    holds = Q(valid_to=None) | Q(valid_to__gt=at)
    by_model: dict[str, list[Contract]] = defaultdict(list)
    for each in commitments().filter(holds, valid_from__lte=at):
        contract = Contract(each.gpus, usd_per_gpu_hour(each, at), each.valid_to, each.name)
        by_model[each.gpu_model.name].append(contract)
    return by_model
