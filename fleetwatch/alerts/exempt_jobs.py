"""Of which findings of jobs an operator approved, and of which people said by an incident why they
are no waste: that is not to be saved.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from fleetwatch.alerts.covered_causes import COVERED
from fleetwatch.alerts.incidents.muted_incidents import read_mutes
from fleetwatch.alerts.incidents.muting import Mute
from fleetwatch.alerts.matchers import Labels
from fleetwatch.alerts.measuring.gpu_words import model_of
from fleetwatch.alerts.measuring.job_labels import NamedCard, job_labels
from fleetwatch.alerts.models import Rule, Silence
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.diagnosis.findings.mended import mended
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import to_ms

# what a matcher of a job asks of its row: of whom it asks something else, all are read
COLUMNS = {
    "job": "key",
    "subject": "key",
    "name": "name",
    "user": "user",
    "kind": "kind",
    "cluster": "cluster",
    "scheduler": "scheduler",
}
OF_GPUS = ("node", "model")
KINDS = (Silence.Kind.EXEMPTION, Silence.Kind.JUSTIFICATION)
Key = tuple[int, str]  # a job and a cause
LATELY = timedelta(days=30)  # as long as a list of findings reaches back


def exempt(keys: Collection[Key], now: datetime) -> Mapping[Key, Mute]:
    """Of these jobs and causes those that an exemption or an accepted reason is about that holds
    now, each with the one that lasts longest.
    """
    mutes = [mute for mute in read_mutes(now, now) if _holds(mute, now)]
    if not mutes or not keys:
        return {}
    jobs = _jobs({job_id for job_id, _ in keys}, mutes, now)
    labels = _labels(jobs, mutes)
    rules = _rules(mutes)
    longest = {
        (job_id, cause): _longest(mutes, labels[job_id] | {"cause": (cause,)}, rules[cause])
        for job_id, cause in keys
        if job_id in labels
    }
    return {key: mute for key, mute in longest.items() if mute is not None}


def exempt_findings(silence_ids: Collection[int], now: datetime) -> Mapping[int, list[Finding]]:
    """By the id of each of these the findings of the last 30 days that are exempt by it, those that
    were seen last first, as far as the reader sees them: they are open again once it ends.
    """
    mutes = [mute for mute in read_mutes(now, now) if mute.silence_id in silence_ids]
    if not mutes:
        return {}
    jobs = visible(Job.objects.filter(_may_be(mutes)))
    findings = {(each.job_id or 0, each.cause): each for each in _open_findings(jobs, now)}
    settled = mended(findings.keys())
    by_silence: dict[int, list[Finding]] = defaultdict(list)
    for key, mute in exempt(findings.keys(), now).items():
        silence_id = mute.silence_id
        if silence_id is not None and silence_id in silence_ids and key not in settled:
            by_silence[silence_id].append(findings[key])
    return by_silence


def _open_findings(jobs: QuerySet[Job], now: datetime) -> QuerySet[Finding]:
    """A snooze that is over is open."""
    is_open = Q(status=Finding.Status.OPEN) | Q(
        status=Finding.Status.SNOOZED, snoozed_until__lte=now
    )
    lately = Finding.objects.filter(is_open, job__in=jobs, last_ms__gt=to_ms(now - LATELY))
    return lately.select_related("job").order_by("-last_ms", "-pk")


def _holds(mute: Mute, now: datetime) -> bool:
    is_time = mute.hours is None or mute.hours.hold(now)
    return mute.kind in KINDS and is_time


def _rules(mutes: Iterable[Mute]) -> Mapping[str, list[str]]:
    """By the cause the names of the rules whose accepted incidents are of it."""
    rules: dict[str, list[str]] = defaultdict(list)
    if any(mute.kind == Silence.Kind.JUSTIFICATION for mute in mutes):
        named = Rule.objects.filter(condition__in=COVERED).values_list("condition", "name")
        for condition, name in named:
            for cause in COVERED[condition]:
                rules[cause].append(name)
    return rules


def _longest(mutes: Iterable[Mute], labels: Labels, rules: Iterable[str]) -> Mute | None:
    """`rules`: those by one of which a reason may have been accepted."""
    holding = [mute for mute in mutes if any(map(mute.is_for, _of_kind(mute, labels, rules)))]
    return max(holding, key=lambda mute: mute.ends_at, default=None)


def _of_kind(mute: Mute, labels: Labels, rules: Iterable[str]) -> list[Labels]:
    """An exemption is of the finding; a reason was accepted of an incident, which has a rule."""
    if mute.kind == Silence.Kind.EXEMPTION:
        return [labels]
    return [{**labels, "rule": (name,)} for name in rules]


def _jobs(job_ids: Collection[int], mutes: Iterable[Mute], now: datetime) -> list[Job]:
    """Those of these that one of the exemptions may be about, each with its team of now."""
    jobs = Job.objects.filter(_may_be(mutes), pk__in=list(job_ids)).select_related("team")
    return into_teams(jobs, before=now)


def _may_be(mutes: Iterable[Mute]) -> Q:
    """What one of them asks of a job's row: nothing where one asks nothing of it, for what is empty
    would be left out beside the others.
    """
    asked = [_asked(mute) for mute in mutes]
    return reduce(or_, asked) if all(asked) else Q()


def _asked(mute: Mute) -> Q:
    """What it asks of a job's row in full, without a pattern."""
    asked = Q()
    for each in mute.matchers:
        is_exact = not any(sign in value for value in each.values for sign in "*?[")
        if each.label in COLUMNS and is_exact and not each.is_not:
            asked &= Q(**{f"{COLUMNS[each.label]}__in": each.values})
    return asked


def _labels(jobs: Sequence[Job], mutes: Iterable[Mute]) -> dict[int, dict[str, tuple[str, ...]]]:
    """Of each job, by its id, what is matched; with its GPUs where an exemption asks for them."""
    asks_gpus = any(each.label in OF_GPUS for mute in mutes for each in mute.matchers)
    cards = _cards(jobs) if asks_gpus else {}
    return {
        job.pk: {**job_labels(job, cards.get(job.pk, ())), "subject": (job.key,)} for job in jobs
    }


def _cards(jobs: Iterable[Job]) -> Mapping[int, list[NamedCard]]:
    cards = defaultdict(list)
    held = Allocation.objects.filter(job__in=jobs).select_related("gpu__node", "gpu__model")
    for each in held:
        cards[each.job_id].append(NamedCard(each.gpu.node.name, model_of(each.gpu)))
    return cards
