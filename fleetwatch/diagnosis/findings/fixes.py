"""Reads of realised savings: the top fixes of a period, and what they saved in sum."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet

from fleetwatch.accounts.models import Identity
from fleetwatch.accounts.visibility import narrowed, pseudonymous
from fleetwatch.diagnosis.cause_totals import Saving, together
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.figures import pricing
from fleetwatch.figures.others_names import job_name_shown, names_shown
from fleetwatch.figures.totals import ZERO
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import under, visible
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

MONTHS = 3  # of a quarter
OF_FIXES = ("user", "cause", "job_name")
OF_SERIES = {"team": "team__slug", "kind": "kind", "cluster": "cluster"}
NARROWS = (*OF_FIXES, *OF_SERIES)  # what of a page's filters is known of fixes
NOT_NARROWED: Mapping[str, str] = {}
SERIES_PLACE = ("scheduler", "cluster")
SERIES = (*SERIES_PLACE, "user", "name")
_NO_GAIN = (Outcome.UNPROVEN, Outcome.REGRESSED)  # of which a saving of nothing is known
_RATES = read_statement("diagnosis/sql/rates_of_fixes.sql")


@dataclass(frozen=True, slots=True)
class Realised:
    """A fix with what it saved since; dollars at what the series' GPU time cost, 0 where none of it
    has a rate.

    A saving of 0 with outcome "improved" reads "utilisation improved": that hours were saved is not
    known.
    """

    fix: Fix
    saving: Saving

    @property
    def effect(self) -> float | None:
        """By how much the useful share rose, in points of 1; None without runs enough."""
        if self.fix.useful_before is None or self.fix.useful_after is None:
            return None
        return self.fix.useful_after - self.fix.useful_before


@dataclass(frozen=True, slots=True)
class Back:
    """After the fix of that moment the cause is back: in `with_it` of the `runs` that began since,
    as far as the reader sees them.
    """

    at: datetime
    with_it: int
    runs: int


def quarter(at: datetime, zone: ZoneInfo) -> Interval:
    """The calendar quarter of that moment, in that zone."""
    local = at.astimezone(zone)
    month = (local.month - 1) // MONTHS * MONTHS + 1
    start = datetime(local.year, month, 1, tzinfo=zone)
    end = datetime(
        local.year + (month + MONTHS > 12), (month + MONTHS - 1) % 12 + 1, 1, tzinfo=zone
    )
    return Interval(start, end)


def top_fixes(interval: Interval, narrowing: Mapping[str, str] = NOT_NARROWED) -> list[Realised]:
    """Fixes of that time that the reader sees: most dollars saved first, then most hours, then by
    how much utilisation improved; the unproven last. Of `narrowing` those in NARROWS count.
    """
    of_time = Fix.objects.filter(at__gte=interval.start, at__lt=interval.end)
    fixes = of_time.filter(_asked_for(narrowing))
    wanted = _of_visible(fixes) if narrowed() else fixes
    return _under_pseudonyms(sorted(_measured(wanted), key=_rank))


def _asked_for(narrowing: Mapping[str, str]) -> Q:
    """Of fixes: a team, a kind and a cluster are those of jobs of their series."""
    own = {name: narrowing[name] for name in OF_FIXES if name in narrowing}
    of_jobs = {field: narrowing[name] for name, field in OF_SERIES.items() if name in narrowing}
    if not of_jobs:
        return Q(**own)
    series = Job.objects.filter(user=OuterRef("user"), name=OuterRef("job_name"), **of_jobs)
    return Q(Exists(series), **own)


def _of_visible(fixes: QuerySet[Fix]) -> QuerySet[Fix]:
    """Those of the reader's jobs. One that was only noticed is of no job: nobody is shown it who
    does not see everything, for others may be called as its user on another cluster.
    """
    return fixes.filter(finding__job__in=visible(Job.objects.all()))


def own(several: Sequence[Realised], names: Iterable[Identity]) -> list[Realised]:
    """Those of jobs under these names: each of the job that was called fixed, or, where there is
    none, of a series that such a job is of.
    """
    job_of = {each.fix.pk: each.fix.finding and each.fix.finding.job_id for each in several}
    series = Q(name__in={each.fix.job_name for each in several}) | Q(pk__in=set(job_of.values()))
    rows = list(Job.objects.filter(under(names), series).values_list("pk", "user", "name"))
    ids = {row[0] for row in rows}
    theirs = {row[1:] for row in rows}
    return [
        each
        for each in several
        if (
            job_of[each.fix.pk] in ids
            if job_of[each.fix.pk]
            else (each.fix.user, each.fix.job_name) in theirs
        )
    ]


def _under_pseudonyms(every: list[Realised]) -> list[Realised]:
    """The same, in memory alone, of what the reader may not know by name without a way to it."""
    if pseudonymous() is None:
        return every
    fixes = [each.fix for each in every]
    of_visible = _of_visible(Fix.objects.filter(pk__in=[fix.pk for fix in fixes]))
    visible_ids = set(of_visible.values_list("pk", flat=True))
    series = visible(Job.objects.filter(name__in={fix.job_name for fix in fixes}))
    public = set(series.values_list("user", "name"))
    users = names_shown("user", [fix.user for fix in fixes])
    for fix in fixes:
        if fix.pk not in visible_ids:
            fix.finding = None
            if (fix.user, fix.job_name) not in public:
                fix.job_name = job_name_shown(fix.user, fix.job_name)
                fix.user = users[fix.user]
    return every


def of_finding(finding: Finding) -> Realised | None:
    """What the finding's fix brought; None where nobody called it fixed, or that was not measured
    yet.
    """
    return next(iter(_measured(Fix.objects.filter(finding=finding))), None)


def open_runs_since(finding: Finding, at: datetime) -> tuple[int, int | None]:
    """How many runs of the finding's job that began since then have its cause as an open finding,
    of those that the reader sees; and when the first of them began, None of none.
    """
    runs = _runs_since(finding.its_job, at)
    shown = Finding.objects.filter(cause=finding.cause, status=Finding.Status.OPEN, job__in=runs)
    sums = shown.aggregate(runs=Count("job", distinct=True), since_ms=Min("job__start_ms"))
    return sums["runs"], sums["since_ms"]


def _runs_since(job: Job, at: datetime) -> QuerySet[Job]:
    """Of the job's series those that began since then, of those that the reader sees."""
    series = {name: getattr(job, name) for name in SERIES}
    return visible(Job.objects.filter(**series, start_ms__gte=to_ms(at)))


def came_back(job: Job, causes: Iterable[str]) -> dict[str, Back]:
    """Of these causes of the job those that are back after a fix of its series, each with the
    newest such fix.
    """
    own = {name: getattr(job, name) for name in SERIES_PLACE}
    is_own = Q(finding=None) | Q(**{f"finding__job__{name}": own[name] for name in own})
    fixes = Fix.objects.filter(
        is_own, user=job.user, job_name=job.name, cause__in=set(causes), outcome=Outcome.REGRESSED
    )
    # the newest of a cause stands last
    return {fix.cause: _back(job, fix) for fix in fixes.order_by("at")} if job.name else {}


def _back(job: Job, fix: Fix) -> Back:
    runs = _runs_since(job, fix.at)
    with_it = runs.filter(findings__cause=fix.cause).distinct()
    return Back(fix.at, with_it.count(), runs.count())


def of_findings(findings: Iterable[Finding]) -> dict[int, Realised]:
    """The same of several, by the finding's id."""
    fixes = Fix.objects.filter(finding__in=list(findings))
    return {each.fix.finding_id: each for each in _measured(fixes) if each.fix.finding_id}


def realised(several: Sequence[Realised]) -> Saving:
    """What they saved in sum: kept apart from what is recoverable and what is accepted.

    Each series counts once, by the fix that saved most: two fixes of one job are measured by the
    same shorter runs.
    """
    largest: dict[tuple[str, str, int | None], Saving] = {}
    for each in several:
        series = (each.fix.user, each.fix.job_name, each.fix.gpus)
        largest[series] = max(
            each.saving,
            largest.get(series, each.saving),
            key=lambda saving: saving.low_ms + saving.high_ms,
        )
    return together(largest.values())


def are_measured(several: Iterable[Realised]) -> bool:
    """Whether what any of them saved is known, be it nothing: of one that waits for runs, or that
    improved utilisation alone, it is not.
    """
    return any(each.saving.high_ms or each.fix.outcome in _NO_GAIN for each in several)


def _measured(fixes: QuerySet[Fix]) -> list[Realised]:
    rows = list(fixes.select_related("finding__job"))
    rates = _rates(rows)
    return [Realised(fix, _saving(fix, rates.get(fix.pk))) for fix in rows]


def _rank(realised: Realised) -> tuple[bool, Decimal, int, float, int]:
    saving = realised.saving
    return (
        realised.fix.outcome != Outcome.IMPROVED,
        -(saving.low_usd + saving.high_usd),
        -saving.high_ms,
        -(realised.effect or 0.0),
        realised.fix.pk,
    )


def _saving(fix: Fix, rate: tuple[Decimal, int] | None) -> Saving:
    low_usd, high_usd = (
        pricing.divided(saved_ms * rate[0] / rate[1]) if rate else ZERO
        for saved_ms in (fix.saved_low_ms, fix.saved_high_ms)
    )
    return Saving(fix.saved_low_ms, fix.saved_high_ms, low_usd, high_usd)


def _rates(fixes: Iterable[Fix]) -> dict[int, tuple[Decimal, int]]:
    """Fix -> (sum of GPU time x dollars per GPU-hour, that GPU time): of the series' priced
    time.
    """
    rows = fetched(_RATES, {"fix_ids": [fix.pk for fix in fixes if fix.saved_high_ms]})
    return {fix_id: (usd_ms, int(held_ms)) for fix_id, usd_ms, held_ms in rows}
