"""What a change of mapping rules would move, in dollars and GPU time, before anybody makes it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.difference import LOOKS_BACK_DAYS, closed_days
from fleetwatch.figures.selectors import Line, held_by_owner
from fleetwatch.figures.totals import ZERO
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import taken_back

__all__ = ["LOOKS_BACK_DAYS", "Move", "Preview", "moved", "preview", "trial_start"]

Amount = tuple[int, Decimal]  # GPU time and dollars
Held = dict[int, dict[Line, Amount]]  # job -> line -> what it has there


@dataclass(frozen=True, slots=True)
class Move:
    """GPU time and dollars that leave one line for another; lines as totals_by(owner) names
    them.
    """

    owner: str  # team, project or cost_centre
    origin: Line
    target: Line
    jobs: int
    gpu_ms: int
    usd: Decimal


@dataclass(frozen=True, slots=True)
class Preview:
    """What moves in the last 30 days that are over; the largest first.

    What the fleet costs stays as it is.
    """

    interval: Interval
    moves: list[Move]


def preview(change: Callable[[], object], owners: Collection[str], *, now: datetime) -> Preview:
    """What the change would move between teams, projects and cost centres, of those that it speaks
    of.

    It is made and taken back: what is shown is what comes.
    """
    interval = closed_days(now)

    def held() -> dict[str, Held]:
        return {owner: held_by_owner(interval, owner) for owner in owners}

    before, _, after = taken_back(lambda: (held(), change(), held()))
    return Preview(
        interval, [move for owner in owners for move in moved(owner, before[owner], after[owner])]
    )


def trial_start(now: datetime) -> datetime:
    """From when on a rule can be tried on the days of a preview: where they begin, or where the
    last closed month ends.
    """
    start = closed_days(now).start
    return max(start, closed_until() or start)


def moved(owner: str, before: Held, after: Held) -> list[Move]:
    """Between which lines the time of jobs moves, the most GPU time first.

    What a job's lines lose goes to those that gain, in their order: exact where all of it comes
    from one line or goes to one, as with a single rule.
    """
    moves: dict[tuple[Line, Line], Move] = {}
    for job in sorted(before.keys() | after.keys()):
        for origin, target, gpu_ms, usd in _flows(before.get(job, {}), after.get(job, {})):
            sums = moves.get((origin, target), Move(owner, origin, target, 0, 0, ZERO))
            moves[origin, target] = Move(
                owner, origin, target, sums.jobs + 1, sums.gpu_ms + gpu_ms, sums.usd + usd
            )
    return sorted(moves.values(), key=lambda move: (-move.gpu_ms, move.origin, move.target))


def _flows(
    before: Mapping[Line, Amount], after: Mapping[Line, Amount]
) -> Iterator[tuple[Line, Line, int, Decimal]]:
    """(origin, target, GPU time, dollars) of one job: each takes all that is left of a loss, or all
    that is left of a gain.
    """
    losses = _growth(after, before)
    gains = _growth(before, after)
    for origin in sorted(losses):
        for target in sorted(gains):
            # the smaller one goes whole, at its own dollars
            gpu_ms, usd = min(losses[origin], gains[target], key=lambda amount: amount[0])
            if gpu_ms:
                losses[origin] = _less(losses[origin], (gpu_ms, usd))
                gains[target] = _less(gains[target], (gpu_ms, usd))
                yield origin, target, gpu_ms, usd


def _growth(before: Mapping[Line, Amount], after: Mapping[Line, Amount]) -> dict[Line, Amount]:
    """What the lines that are larger afterwards have more."""
    more = {line: _less(amount, before.get(line, (0, ZERO))) for line, amount in after.items()}
    return {line: amount for line, amount in more.items() if amount[0] > 0}


def _less(amount: Amount, part: Amount) -> Amount:
    return amount[0] - part[0], amount[1] - part[1]
