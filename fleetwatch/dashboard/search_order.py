"""In which order a search lists what it found."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from fleetwatch.dashboard.search_hits import OVER, Hit, has_word
from fleetwatch.diagnosis.cause_totals import Saving

ON_TOP = (0, 1)  # of incidents and jobs that stand so their kind is listed before the others
# kinds as a search lists them, after those of which something is called just so
ORDER = (
    *("page", "node", "team", "user", "job", "finding"),
    *("GPU", "incident", "cause", "view", "word"),
)


def ranked(
    hits: Iterable[Hit], text: str, savings: Mapping[int, Saving]
) -> list[tuple[str, list[Hit]]]:
    """In groups of one kind: those of which something is called just so, then the incident of a
    number, then what fires and what goes on, the reader's own jobs, and the others by ORDER. In
    each what is called so, the reader's own, what is most pressing, findings by what they could
    save, what begins so, and what has a word that does; incidents the newest first.
    """
    groups: dict[str, list[Hit]] = defaultdict(list)
    for hit in sorted(hits, key=lambda hit: _rank(hit, text, savings)):
        groups[hit.kind].append(hit)
    return sorted(groups.items(), key=lambda group: _rank_of_kind(group[0], group[1], text))


def _rank_of_kind(
    kind: str, several: Sequence[Hit], text: str
) -> tuple[bool, bool, int, bool, bool, int]:
    """What a word means is no thing: it comes behind what fires, though it is called so."""
    is_called = several[0].is_called(text)
    return (
        not is_called or kind == "word",
        kind != "incident" or not several[0].has_number,
        _pressing(kind, several),
        not several[0].is_own,
        not is_called,
        ORDER.index(kind),
    )


def _pressing(kind: str, several: Iterable[Hit]) -> int:
    """How pressing the most pressing of them is; OVER of kinds that no such thing brings ahead."""
    most = min(hit.standing for hit in several)
    return most if kind in ("incident", "job") and most in ON_TOP else OVER


def _rank(
    hit: Hit, text: str, savings: Mapping[int, Saving]
) -> tuple[bool, bool, int, bool, Decimal, bool, bool]:
    """What was not measured is told at most: it comes behind what was."""
    saving = savings.get(hit.finding_id or 0)
    saved_usd = saving.low_usd + saving.high_usd if saving else Decimal(0)
    is_by_name = hit.kind != "incident"
    is_first = hit.name.lower().startswith(text.lower())
    return (
        not hit.is_called(text),
        not hit.is_own,
        hit.standing,
        hit.has_step,
        -saved_usd,
        is_by_name and not is_first,
        is_by_name and not has_word(text, hit.name),
    )
