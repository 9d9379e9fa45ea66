"""Jobs: the list by waste, and one job."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from fleetwatch.costs.held import held_interval
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.sites import energy
from fleetwatch.dashboard import pages, selectors
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.job_history import change_lines, otherwise_lines
from fleetwatch.dashboard.lines import GPULine
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS, filtered, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, of_job, of_kind
from fleetwatch.diagnosis.findings.alternatives import alternatives, in_words
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.ranking import SORTS
from fleetwatch.figures.selectors import Group, Scope
from fleetwatch.figures.totals import nothing
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.jobs.selectors import changes, contradictions, job_ids, namesakes, wait_ms
from fleetwatch.jobs.selectors import job as job_of_key

PAGE_SIZE = 50
IN_FORM = ("user", "team", "node")  # filters with a field of their own


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job's figures in the period; `job` is None when its row is gone."""

    group: Group
    job: Job | None
    cause: Primary | None

    @property
    def cause_title(self) -> str:
        """Why it wastes; "" where nothing was diagnosed."""
        if self.cause is None:
            return ""
        if self.cause.cause not in BY_CODE:
            return self.cause.cause
        return of_job(self.cause.cause, "", self.group.totals.coverage).title


@require_GET
@login_required
@takes("q", *SUBJECTS, "kind", "cluster", "sort", "after", *PERIOD)
def jobs(request: HttpRequest) -> HttpResponse:
    period = read_period(request)
    sort = chosen(request, "sort", SORTS, default="waste")
    scope, filters = filtered(request)
    text, place = request.GET.get("q", "").strip(), pages.read_place(request.GET.get("after", ""))
    if place is None:
        first_page(request)
    kind, cluster = (
        chosen(request, "kind", Job.Kind.values) or None,
        request.GET.get("cluster") or None,
    )
    among = job_ids(text=text, kind=kind, cluster=cluster)
    filters |= {name: value for name, value in (("kind", kind), ("cluster", cluster)) if value}
    held = replace(scope, is_allocated=True)
    seen = costs.look(period.interval, "job", scope=held).of("job", among)
    page = seen.ranked("job", PAGE_SIZE, sort=sort, start=place or 0)
    rows = selectors.jobs_by_key((group.key for group in page.groups), before=period.interval.end)
    with_outcomes(rows.values())
    why = diagnosis.causes_of([job.pk for job in rows.values()], period.interval)
    context = {
        "lines": [_line(group, rows.get(group.key), why) for group in page.groups],
        "pager": pages.pager(page, is_first=place is None),
        "sort": sort,
        "other_filters": {name: value for name, value in filters.items() if name not in IN_FORM},
        "filters": filters | ({"q": text} if text else {}),
    }
    return render(request, "dashboard/jobs.html", period.context("jobs", **context))


@require_GET
@login_required
@takes(*PERIOD)
def job(request: HttpRequest, key: str) -> HttpResponse:
    found = job_of_key(key)
    if found is None:
        raise Http404
    period = read_period(request, whole=held_interval(found))
    with_outcomes(into_teams([found], before=period.interval.end))
    scope = Scope(job=found.key)
    gpus = selectors.job_gpus(found)
    told = costs.breakdown(period.interval, "gpu", scope=scope)
    by_gpu = {group.key: group.totals for group in told.lines}
    bands = selectors.bands([gpu.pk for gpu in gpus], period.interval, job=found)
    lines = [GPULine(gpu, by_gpu.get(gpu.uuid, nothing()), bands[gpu.pk]) for gpu in gpus]
    findings = diagnosis.findings(period.interval, now=period.now, scope=scope)[:]
    others = alternatives([(found.pk, line.finding.cause) for line in findings])
    why = diagnosis.primary_causes(period.interval, scope=scope).get(found.pk)
    context = {
        "job": found,
        "findings": [
            (
                line,
                of_kind(line.finding.cause, found.kind),
                CONFIDENCES[line.caused.confidence],
                in_words(others.get((found.pk, line.finding.cause), ()), found.kind),
            )
            for line in findings
        ],
        "cause": of_job(why[0].cause, found.kind, told.totals.coverage)
        if why and why[0].cause in BY_CODE
        else None,
        "totals": told.totals,
        "gpus": sorted(lines, key=lambda line: -line.totals.wasted_ms),
        "energy": energy(period.interval, scope=scope),
        "job_parameter": quote(found.key, safe=""),
        "wait_ms": wait_ms(found),
        "namesakes": namesakes(found),
        "otherwise": otherwise_lines(contradictions(found)),
        "changes": change_lines(changes(found)),
        "sources": sorted(
            set(Allocation.objects.filter(job=found).values_list("source", flat=True))
        ),
    }
    return render(request, "dashboard/job.html", period.context("jobs", **context))


def _line(group: Group, job: Job | None, why: Mapping[int, Primary]) -> JobLine:
    return JobLine(group, job, why.get(job.pk) if job is not None else None)
