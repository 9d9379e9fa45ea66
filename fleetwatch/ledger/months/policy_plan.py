"""What is judged by which policy: open hours by the one in force, closed ones by their own."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from fleetwatch.accounts.selectors import zone
from fleetwatch.ledger import hour_cuts
from fleetwatch.ledger.hour_cuts import spans_of_hours
from fleetwatch.ledger.models import ClosedMonth, Entry
from fleetwatch.lib.intervals import HOUR_MS, ceil_hour_ms, floor_hour_ms, from_ms, to_ms

NEVER_MS = -(2**53)


@dataclass(frozen=True, slots=True)
class Frontier:
    """Until when the ledger is closed (NEVER_MS: nowhere), and the policy of each closed month by
    its end, ascending.
    """

    until_ms: int
    months: tuple[tuple[int, int], ...]

    def policy_at(self, at_ms: int) -> int:
        """The policy of the closed month that holds a closed moment; of the first one for what lies
        before it.
        """
        return next(policy_id for end_ms, policy_id in self.months if at_ms < end_ms)


@dataclass(frozen=True, slots=True)
class Piece:
    """Cuts [start_ms, end_ms) of a node that one policy judges, all closed or all open."""

    start_ms: int
    end_ms: int
    policy_id: int
    is_closed: bool

    @property
    def hours(self) -> tuple[int, int]:
        """The clock hours that hold it: what is judged; a month may end in the middle of one."""
        return floor_hour_ms(self.start_ms), ceil_hour_ms(self.end_ms)


def frontier() -> Frontier:
    """What is closed now."""
    months = tuple(
        (to_ms(end), policy_id)
        for end, policy_id in ClosedMonth.objects.order_by("end").values_list("end", "policy_id")
    )
    return Frontier(months[-1][0] if months else NEVER_MS, months)


def to_post(
    node_id: int, hours: Iterable[int], *, policy_id: int, closed: Frontier, at_most: int
) -> list[Piece]:
    """The hours of the node in pieces of at most so many hours; `policy_id` is the one in force."""
    wanted = set(hours)
    is_open = {hour for hour in wanted if hour >= closed.until_ms}
    pieces = [
        Piece(start, end, policy_id, is_closed=False)
        for start, end in spans_of_hours(is_open, at_most=at_most)
    ]
    if wanted == is_open:
        return pieces
    own = policies(node_id, min(wanted), closed.until_ms)
    cuts = [
        (cut, end, own.get(cut, closed.policy_at(cut)) if cut < closed.until_ms else policy_id)
        for cut, end in _cuts(wanted - is_open)
    ]
    return _joined(cuts, closed.until_ms, at_most) + pieces


def as_posted(
    node_id: int, low_ms: int, high_ms: int, *, without: set[int], closed: Frontier, at_most: int
) -> list[Piece]:
    """The cuts of [low_ms, high_ms) that have entries, in pieces by the policy that these name;
    `without` some clock hours.
    """
    own = policies(node_id, low_ms, high_ms)
    hours = set(map(floor_hour_ms, own)) - without
    return _joined(
        [(cut, end, own[cut]) for cut, end in _cuts(hours) if cut in own], closed.until_ms, at_most
    )


def policies(node_id: int, low_ms: int, high_ms: int) -> dict[int, int]:
    """Cut -> the (newest) policy that its entries name."""
    rows = Entry.objects.filter(
        node_id=node_id, start__gte=from_ms(low_ms), start__lt=from_ms(high_ms)
    )
    return {
        to_ms(start): policy_id
        for policy_id, start in sorted(rows.values_list("policy_id", "start").distinct())
    }


def _cuts(hours: Iterable[int]) -> list[tuple[int, int]]:
    """The cuts of clock hours, ascending."""
    own_zone = zone()
    return [
        cut
        for start, end in spans_of_hours(hours, at_most=24 * 366)
        for cut in pairwise(hour_cuts.edges(start, end, own_zone).tolist())
    ]


def _joined(cuts: Iterable[tuple[int, int, int]], until_ms: int, at_most: int) -> list[Piece]:
    pieces: list[Piece] = []
    for start, end, policy_id in cuts:
        piece = Piece(start, end, policy_id, start < until_ms)
        if pieces and pieces[-1].end_ms == start:
            whole = replace(pieces[-1], end_ms=end)
            is_alike = whole == replace(piece, start_ms=whole.start_ms)
            if is_alike and end - whole.start_ms <= at_most * HOUR_MS:
                pieces[-1] = whole
                continue
        pieces.append(piece)
    return pieces
