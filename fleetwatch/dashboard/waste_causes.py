"""Lines of waste by cause as the page shows them: what nobody knows a cause of is one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.diagnosis.causes import UNDETERMINED, WELL_CODES, title
from fleetwatch.figures.totals import Group, Totals, together

NO_KNOWN_CAUSE = (UNDETERMINED, *WELL_CODES)


@dataclass(frozen=True, slots=True)
class CauseLine:
    """A cause with its share (0 to 1) of all that was wasted, in dollars, or in time where nothing
    has a price; None where nothing was wasted. `parts` of what has no known cause: what that is
    made of.
    """

    group: Group
    share: float | None
    parts: Sequence[Group] = ()


def cause_lines(groups: Sequence[Group], whole: Totals) -> list[CauseLine]:
    """Most wasted dollars first; what has no cause at all, being no waste, last."""
    unknown = [group for group in groups if group.key in NO_KNOWN_CAUSE]
    lines = [group for group in groups if group.key and group not in unknown]
    if unknown:
        lines.append(
            Group(UNDETERMINED, title(UNDETERMINED), together(group.totals for group in unknown))
        )
    lines.sort(key=lambda group: (-group.totals.wasted_usd, -group.totals.wasted_ms, group.key))
    lines += [group for group in groups if not group.key]
    return [
        CauseLine(
            group,
            _share(group.totals, whole),
            unknown if group.key == UNDETERMINED and len(unknown) > 1 else (),
        )
        for group in lines
    ]


def _share(part: Totals, whole: Totals) -> float | None:
    if whole.wasted_usd:
        return float(part.wasted_usd / whole.wasted_usd)
    return part.wasted_ms / whole.wasted_ms if whole.wasted_ms else None
