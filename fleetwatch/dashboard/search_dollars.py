"""What the things that a search found cost lately, in one look at the ledger."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.dashboard.search_hits import Hit, Subject
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import clock_losses, inbox
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import selectors as costs
from fleetwatch.lib.intervals import Interval

DAYS = 7
FINDING_DAYS = 30


def dollars_of(hits: Iterable[Hit], now: datetime) -> Mapping[Subject, Decimal]:
    """By the subject of each hit that has one what its GPU time of the last week cost, as far as
    the reader sees that time; of what had none there is nothing.
    """
    by_group: dict[str, set[Subject]] = defaultdict(set)
    for hit in hits:
        if hit.subject is not None:
            by_group[hit.subject.group_by].add(hit.subject)
    if not by_group:
        return {}
    seen = costs.look(Interval(now - timedelta(days=DAYS), now), *by_group)
    return {
        subject: cost_by_key[subject.key]
        for group_by, subjects in by_group.items()
        if (cost_by_key := _by_key(seen, group_by, subjects))
        for subject in subjects
        if subject.key in cost_by_key
    }


def savings_of(hits: Iterable[Hit], now: datetime) -> Mapping[int, Saving]:
    """By the id of each finding that was found what it could save, in the last 30 days; of what was
    not seen in these there is nothing.
    """
    wanted = {hit.finding_id for hit in hits if hit.finding_id is not None}
    if not wanted:
        return {}
    return inbox.savings_of(wanted, Interval(now - timedelta(days=FINDING_DAYS), now), now=now)


def clock_losses_of(hits: Iterable[Hit], now: datetime) -> Mapping[int, ClockLoss]:
    """By the id of each finding of slowed GPUs that was found what their clock cost in these days:
    its page decides by that, where the ledger counts little.
    """
    wanted = [hit.finding_id for hit in hits if hit.is_slowed and hit.finding_id is not None]
    if not wanted:
        return {}
    interval = Interval(now - timedelta(days=FINDING_DAYS), now)
    return clock_losses.of_findings(Finding.objects.filter(pk__in=wanted), interval)


def _by_key(
    seen: costs.Look, group_by: str, subjects: Collection[Subject]
) -> Mapping[str, Decimal]:
    """What each of these groups cost; nothing is summed of the others, which may be many."""
    keys = {subject.key for subject in subjects}
    ids = [subject.pk for subject in subjects if subject.pk is not None] or [
        number for number, (key, _) in seen.lines(group_by, ()).items() if key in keys
    ]
    return {group.key: group.totals.cost_usd for group in seen.of(group_by, ids).by(group_by)}
