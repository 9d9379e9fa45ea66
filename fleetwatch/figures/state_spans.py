"""What the ledger's time is: a state, a tier of waste, and whether "a kernel was running" is all
that makes it useful; and how Postgres packs it. Pure.
"""

from typing import NamedTuple

import numpy as np

from fleetwatch.figures.packed_spans import HEAD
from fleetwatch.ledger import policy


class Kind(NamedTuple):
    """The label of a span of the ledger."""

    state: str
    tier: str  # "" = no waste
    is_busy_only: bool

    @property
    def shown(self) -> str:
        """The state as people see it: `unverified` apart from useful, `waiting` from stalled."""
        if self.state == "useful" and self.is_busy_only:
            return "unverified"
        return "waiting" if (self.state, self.tier) == ("stalled", "potential") else self.state


# costs_kind() of the database (costs/sql/kind_of_time.sql): 8 x state + 2 x tier + is_busy_only;
# kept in rows, so never in another order
KINDS = tuple(
    Kind(state, tier, is_busy_only)
    for state in policy.STATES
    for tier in ("", *policy.TIERS)
    for is_busy_only in (False, True)
)
KINDS_OF_A_STATE = len(KINDS) // len(policy.STATES)
# as costs_span() of the database packs it (costs/sql/packed_span.sql)
RECORD = np.dtype([*HEAD, ("gpu_ms", ">i8"), ("energy_j", ">f8"), ("energy_ms", ">i8")])
# the same of an hour cut, which begins so many microseconds after the database's epoch
CUT_RECORD = np.dtype([("cut", ">i8"), *RECORD.descr])
