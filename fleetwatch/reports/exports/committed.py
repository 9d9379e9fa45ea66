"""Which part of a month's GPU time commitments pay for. Pure.

A commitment is for GPUs of a model, and not for a job: each line of the model has its share of what
of the commitment was held, and each line that no job held of what was there without one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT, lines
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports.statement import TWELVE_PLACES, Shape

_WHOLE = Decimal(1)


@dataclass(slots=True)
class _Line:
    """A line, how much of it no commitment pays for yet, and what each pays for."""

    line: Shape
    left_ms: int
    pieces: list[tuple[Shape | None, int]] = field(default_factory=list)


def is_held(line: Shape) -> bool:
    """Whether a job held the line's time."""
    return "job" in line


def contract_price(commitment: Shape) -> Decimal:
    """Dollars that the commitment says of a GPU-hour, on the mean of the month."""
    usd_hours = Decimal(commitment["committed_usd"]) * HOUR_MS
    return EXACT.divide(usd_hours, Decimal(commitment["committed_ms"])).quantize(TWELVE_PLACES)


def parts(every: Sequence[Shape], commitments: Sequence[Shape]) -> list[list[Shape]]:
    """Each line as the parts that commitments pay for, with their `commitment`, and the rest. Their
    time and dollars sum to the line's, and those of a commitment to what of it was there, as far as
    that has a rate.
    """
    open_lines = [_Line(line, line["priced_ms"]) for line in every]
    for commitment in commitments:
        gpu_model = commitment["gpu_model"]
        fitting = [each for each in open_lines if each.line["gpu_model"] == gpu_model]
        _cover([each for each in fitting if is_held(each.line)], commitment, "used_ms")
        _cover([each for each in fitting if not is_held(each.line)], commitment, "unheld_ms")
    return list(map(_split, open_lines))


def _cover(fitting: Sequence[_Line], commitment: Shape, name: str) -> None:
    """The commitment's hours of that name, in proportion to what is left of the lines."""
    shares = _shares([each.left_ms for each in fitting], commitment[name])
    for each, share_ms in zip(fitting, shares, strict=True):
        if share_ms:
            each.pieces.append((commitment, share_ms))
            each.left_ms -= share_ms


def _shares(available_ms: Sequence[int], covered_ms: int) -> list[int]:
    """What of `covered_ms` each has, in proportion, and no more than it has."""
    total_ms = sum(available_ms)
    most_ms = min(covered_ms, total_ms)
    if not most_ms:
        return [0] * len(available_ms)
    exact = [EXACT.divide(Decimal(ms * most_ms), Decimal(total_ms)) for ms in available_ms]
    return list(map(int, lines(exact, _WHOLE, total=Decimal(most_ms))))


def _split(each: _Line) -> list[Shape]:
    rest: list[tuple[Shape | None, int]] = [(None, each.left_ms)] if each.left_ms else []
    pieces = [*each.pieces, *rest]
    times_ms = [gpu_ms for _, gpu_ms in pieces]
    costs = _in_proportion(each.line["cost_usd"], times_ms)
    wasted = _in_proportion(each.line.get("wasted_usd"), times_ms)
    return [
        each.line
        | {"commitment": commitment, "priced_ms": gpu_ms}
        | {"cost_usd": cost_usd, "wasted_usd": wasted_usd}
        for (commitment, gpu_ms), cost_usd, wasted_usd in zip(pieces, costs, wasted, strict=True)
    ]


def _in_proportion(usd: str | None, times_ms: Sequence[int]) -> Sequence[Decimal | None]:
    """Micro-dollars that sum to the amount; None where that is not known."""
    if usd is None:
        return [None] * len(times_ms)
    amount = Decimal(usd)
    total_ms = Decimal(sum(times_ms))
    return lines([EXACT.divide(amount * ms, total_ms) for ms in times_ms], total=amount)
