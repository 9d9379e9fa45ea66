"""What the pages of a job say first whose time people agreed to be no waste, with how much of it
was unused as a figure. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleetwatch.dashboard.agreements import Agreement
from fleetwatch.dashboard.numbers import percent
from fleetwatch.figures.totals import HEADLINE_TIERS


@dataclass(frozen=True, slots=True)
class AgreedTime:
    """`share` of its time in words, "" where nothing of it was unused; `is_potential`: costs and
    statements count none of it as wasted either.
    """

    agreement: Agreement
    share: str
    is_potential: bool

    @property
    def headline(self) -> str:
        """ "Agreed as not waste: GPUs unused 77 % of its time"."""
        return f"Agreed as not waste: {self.share}" if self.share else "Agreed as not waste"


def agreed_time(
    agreed: Iterable[Agreement],
    *,
    states: Mapping[str, int],
    tiers: Mapping[str, int],
    whole_ms: int,
) -> AgreedTime | None:
    """None where nobody agreed to that. `states` and `tiers`: milliseconds of what is looked at, of
    `whole_ms` that the job held GPUs: what the shares of its states are of, too.
    """
    agreement = next((each for each in agreed if each.is_no_waste), None)
    if agreement is None:
        return None
    is_potential = not any(tiers[tier] for tier in HEADLINE_TIERS)
    return AgreedTime(agreement, _share(states, whole_ms), is_potential)


def _share(states: Mapping[str, int], whole_ms: int) -> str:
    """Unused, or underused where that is more of it: "GPUs unused 77 % of its time"."""
    unused_ms = states["idle"] + states["stalled"]
    word, shown_ms = max(("unused", unused_ms), ("underused", states["underused"]), key=_size)
    if not shown_ms or not whole_ms:
        return ""
    return f"GPUs {word} {percent(shown_ms / whole_ms)} of its time"


def _size(part: tuple[str, int]) -> int:
    return part[1]
