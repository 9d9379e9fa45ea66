"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.text import slugify
from django.views.decorators.http import require_GET

from fleetwatch.accounts.visibility import sight
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.priced import priced
from fleetwatch.dashboard import explained_steps, pages
from fleetwatch.dashboard.choices import chosen_several
from fleetwatch.dashboard.decided import Decisions, by_rule
from fleetwatch.dashboard.entries_csv import to_csv as entries_csv
from fleetwatch.dashboard.entries_within import gpu_ms_within
from fleetwatch.dashboard.parameters import PERIOD, in_states, refused, takes, takes_only
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, existing, file, page
from fleetwatch.dashboard.shown_states import shown_state
from fleetwatch.dashboard.state_terms import by_state
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.breakdown import Traced
from fleetwatch.figures.ranking import Place
from fleetwatch.figures.totals import (
    HEADLINE_STATES,
    HEADLINE_TIERS,
    UNALLOCATED,
    Bucket,
    Scope,
    Totals,
)
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.ledger import explain
from fleetwatch.ledger.explain import Stretch
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.policy import PARTS, SHOWN_STATES
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.timeframes import TimeframeError
from fleetwatch.reports import printed
from fleetwatch.reports.waste import WasteReport
from fleetwatch.reports.waste import to_csv as parts_csv

UNTIL = "until"
SHOWN_SPAN = timedelta(hours=3)  # at once; the API gives six: to word a window's rule takes as long
MAX_RULES = 60  # shown; the API gives every window
MAX_PARTS = 50
MAX_STEPS = 62  # days of a period: two months
MAX_ROWS = 5000  # of a file of parts
MAX_ENTRIES = 20_000  # of a file of entries: a GPU has some thousands a month
# what narrows a figure, and what it is called
SUBJECTS = {
    "team": "team",
    "project": "project",
    "cost_centre": "cost centre",
    "user": "user",
    "node": "node",
    "gpu_model": "GPU model",
    "job": "job",
    "kind": "kind",
    "cluster": "cluster",
    "label": "label",
}


@require_GET
@login_required
def explained(request: HttpRequest) -> HttpResponseBase:
    """`?gpu=`: entries, windows and rules of a GPU; else what the figure of `?team=`, `?job=`, ...

    (all: of everything) is made of.
    """
    return _of_gpu(request) if "gpu" in request.GET else _of_figure(request)


@require_GET
@login_required
def explained_csv(request: HttpRequest) -> HttpResponseBase:
    """The rows of the same address as a file: `?gpu=`: entries; else parts, the dearest first."""
    try:
        return _entries_file(request) if "gpu" in request.GET else _parts_file(request)
    except TimeframeError as error:
        return refused(str(error))


@takes_only(*SUBJECTS, "state", *PERIOD)
def _parts_file(request: HttpRequest) -> HttpResponse:
    period = read_period(request, is_page=False)
    scope = in_states(Scope(**_named(request)), _states(request))
    figure = costs.traced(period.interval, scope=scope, size=MAX_ROWS)
    parts = WasteReport(period.so_far, figure.parts_by, tuple(figure.parts.groups), figure.totals)
    return file(request, parts_csv(parts), "fleetwatch-explained.csv", of=period.so_far)


@takes_only("gpu", "job", "state", *PERIOD)
def _entries_file(request: HttpRequest) -> HttpResponse:
    """Of all the period, or none: a part of it would pass for the whole."""
    gpu = existing(inventory.gpu(request.GET["gpu"]))
    states = _states(request)
    _, holder = _holder(request.GET.get("job"))
    period = read_period(request, is_page=False, default="1h")
    which = _which(holder, states)
    if (count := explain.count_rows(gpu, period.so_far, **which)) > MAX_ENTRIES:
        return refused(_too_many(count))
    entries = _entries(gpu, period.so_far, which, states)
    within_ms = gpu_ms_within(entries, period.so_far, _scope(request, states))
    return file(
        request,
        entries_csv(priced(entries), within_ms),
        _entries_name(gpu, period),
        of=period.so_far,
    )


def _too_many(count: int) -> str:
    return (
        f"This period has {count:,} ledger entries of the GPU, and a file holds"
        f" {MAX_ENTRIES:,}: choose a shorter period, or one state."
    )


def _entries_name(gpu: GPU, period: Period) -> str:
    """The file's name: of which GPU, and of which days of the reader's zone."""
    so_far = period.so_far
    last = so_far.end - timedelta(milliseconds=1)
    days = dict.fromkeys(f"{period.local(moment):%Y-%m-%d}" for moment in (so_far.start, last))
    which = gpu.uuid if gpu.index is None else f"{gpu.node.name}-gpu{gpu.index}"
    return f"fleetwatch-entries-{slugify(which)}-{'-to-'.join(days)}.csv"


def _named(request: HttpRequest) -> dict[str, Any]:
    """What the address narrows the figure to."""
    return {name: request.GET[name] for name in SUBJECTS if name in request.GET}


@takes(*SUBJECTS, "state", "after", *PERIOD)
def _of_figure(request: HttpRequest) -> HttpResponse:
    """Of what no job held with an empty job; `state` narrows it too."""
    period = read_period(request)
    named = _named(request)
    states = _states(request)
    place = pages.read_place(request.GET.get("after", ""))
    figure = _traced(period.interval, named, states, place or 0)
    job = visible(Job.objects.filter(key=named.get("job", UNALLOCATED))).first()
    context = {
        "job": job,
        **_paged(figure, is_first=place is None),
        **_printed(figure),
        "subjects": _subjects(named, job),
        **_narrowed_to(states),
        **_parts(figure, named | _named_states(states), job, period.interval),
    }
    return page(request, period, "dashboard/figure.html", "waste", context)


def _narrowed_to(states: tuple[str, ...]) -> Context:
    """The states, which lines of their own are no part of them, and whether any may be wasted."""
    return {
        "states": states,
        "apart": [part for part, whole in PARTS.items() if states == (whole,)],
        "may_be_wasted": not states or not HEADLINE_STATES.isdisjoint(states),
    }


def _subjects(named: dict[str, Any], job: Job | None) -> list[tuple[str, Any]]:
    """What narrows the figure, in words; a job that the reader sees is named apart."""
    return [
        (SUBJECTS[name], value) for name, value in named.items() if name != "job" or job is None
    ]


def _traced(
    interval: Interval, named: dict[str, Any], states: tuple[str, ...], start: int | Place
) -> Traced:
    scope = in_states(Scope(**named), states)
    return costs.traced(interval, scope=scope, size=MAX_PARTS, start=start)


def _paged(figure: Traced, *, is_first: bool) -> Context:
    pager = pages.pager(figure.parts, is_first=is_first)
    return {"figure": figure, "pager": pager, "max_rows": MAX_ROWS}


def _printed(figure: Traced) -> Context:
    """Terms, of which hours stand to be multiplied by a rate, and parts with their hundredths of
    GPU-hours; both with their cents, as all sum to the figure;
    those that print nothing but zeros are counted.
    """
    total = _amounts(figure.totals)
    parts = figure.parts
    every = [*(group.totals for group in parts.groups), parts.before.totals, parts.after.totals]
    *rows, before, after = zip(*_columns(every, total), strict=True)
    named = list(zip(parts.groups, rows, strict=True))
    shown = [part for part in named if any(part[1])]
    others = (("larger", parts.before, before), ("smaller", parts.after, after))
    return {
        "total": total,
        **_printed_terms(figure, total),
        "parts": shown,
        "parts_of_nothing": len(named) - len(shown),
        "others": [other for other in others if other[1].groups],
    }


def _printed_terms(figure: Traced, total: dict[str, Decimal]) -> Context:
    usd = [term.usd or Decimal(0) for term in figure.terms]
    gpu_ms = [term.gpu_ms for term in figure.terms]
    are_wasted = [term.tier in HEADLINE_TIERS for term in figure.terms]
    hours, hours_sum = printed.multiplied_hours(gpu_ms)
    dollars = _dollars(usd, are_wasted, total)
    terms = list(zip(figure.terms, hours, dollars, strict=True))
    shown = [term for term in terms if term[2] or pricing.usd(term[1], pricing.CENT)]
    priced_terms = [term for term in figure.terms if term.usd is not None]
    return {
        "states_of_terms": by_state(shown),
        "terms_of_nothing": len(terms) - len(shown),
        "terms_hours": hours_sum,
        "list_prices": _how_many([term.is_example_rate for term in priced_terms]),
    }


def _amounts(totals: Totals) -> dict[str, Decimal]:
    """What is printed of a total."""
    return {
        "gpu_hours": pricing.usd(printed.hours(totals.capacity_ms), pricing.CENT),
        "cost_usd": pricing.usd(totals.cost_usd, pricing.CENT),
        "wasted_usd": pricing.usd(totals.wasted_usd, pricing.CENT),
    }


def _columns(rows: Sequence[Totals], total: dict[str, Decimal]) -> Iterator[list[Decimal]]:
    """What rows print of GPU-hours, cost and waste: each column sums to the total's."""
    hours, usd = _apportioned(
        [row.capacity_ms for row in rows], [row.cost_usd for row in rows], total
    )
    yield hours
    yield usd
    # of what was wasted whole, both amounts are one
    whole = {place: usd[place] for place, row in enumerate(rows) if row.wasted_usd == row.cost_usd}
    wasted = [row.wasted_usd for row in rows]
    yield printed.at_most(usd, wasted, total["wasted_usd"], whole)


def _dollars(
    usd: Sequence[Decimal], are_wasted: Sequence[bool], total: dict[str, Decimal]
) -> list[Decimal]:
    """The same of dollars of lines that are wasted or not: those that are sum to what is wasted,
    too.
    """
    both = list(zip(usd, are_wasted, strict=True))
    wasted = iter(
        printed.apportioned([each for each, is_wasted in both if is_wasted], total["wasted_usd"])
    )
    others_usd = total["cost_usd"] - total["wasted_usd"]
    others = iter(
        printed.apportioned([each for each, is_wasted in both if not is_wasted], others_usd)
    )
    return [next(wasted if is_wasted else others) for is_wasted in are_wasted]


def _apportioned(
    gpu_ms: Sequence[int], usd: Sequence[Decimal], total: dict[str, Decimal]
) -> Iterator[list[Decimal]]:
    yield printed.apportioned(list(map(printed.hours, gpu_ms)), total["gpu_hours"])
    yield printed.apportioned(usd, total["cost_usd"])


def _parts(figure: Traced, named: dict[str, str], job: Job | None, interval: Interval) -> Context:
    """Whose its parts are, and by what their own figures are narrowed further."""
    if figure.parts_by == "job":
        # many jobs bear one name; what no job held has no owner
        keys = [part.key for part in figure.parts.groups if part.key != UNALLOCATED]
        owners = attribution.jobs_by_key(keys, before=interval.end)
        return {"owners": owners, "further": urlencode(named), "leads_on": True}
    kept = {name: value for name, value in named.items() if name in ("job", "state")}
    return {"owners": {}, "further": urlencode(kept), "leads_on": _is_explained(job)}


def _states(request: HttpRequest) -> tuple[str, ...]:
    """Those that are asked for, as pages show them; () = all."""
    return chosen_several(request, "state", SHOWN_STATES)


def _of_ledger(shown: tuple[str, ...]) -> tuple[str, ...] | None:
    """The ledger's states that these are, or are parts of; None = all."""
    return in_states(Scope(), shown).states


def _named_states(states: tuple[str, ...]) -> dict[str, str]:
    """As an address names them."""
    return {"state": ",".join(states)} if states else {}


def _shown(
    request: HttpRequest,
    period: Period,
    shown: Interval,
    states: tuple[str, ...],
    gpu: GPU,
) -> Context:
    """What the period comes to, which part of it is shown and what that comes to, of which hours
    its entries are as far as they are over, and the way to what lies before.
    """
    hours = shown.outward_to_hours()
    posted_until = explain.posted_until(gpu, period.so_far)
    is_cut = shown != period.so_far
    totals = _totals(request, shown, states)
    whole, buckets = _whole(request, period, states, totals, is_cut=is_cut)
    sums = _by_state(whole)
    steps = _steps(request, period, shown, buckets, sums["total"], posted_until) if is_cut else {}
    return {
        "interval": shown,
        "posted_until": posted_until,
        "totals": totals,
        "asked": period.so_far,
        **sums,
        "hours": Interval(hours.start, max(shown.end, min(hours.end, period.minute))),
        "is_of_whole_hours": shown == hours,
        "is_cut": is_cut,
        "is_final": explain.is_final(shown, period.now),
        **steps,
    }


def _whole(
    request: HttpRequest,
    period: Period,
    states: tuple[str, ...],
    totals: Totals,
    *,
    is_cut: bool,
) -> tuple[Totals, list[Bucket]]:
    """What all of the period comes to, of which `totals` are of the part that is shown, and its
    days or hours; none where it is shown whole.
    """
    if not is_cut:
        return totals, []
    size = explained_steps.size(period.so_far)
    return costs.totals_and_steps(period.so_far, size, scope=_scope(request, states))


def _steps(
    request: HttpRequest,
    period: Period,
    shown: Interval,
    buckets: Sequence[Bucket],
    total: dict[str, Decimal],
    posted_until: datetime | None,
) -> Context:
    """Days of the period, or of a day its hours, newest first: each with the query of its own
    explanation and its hundredths of GPU-hours and cents, which sum to the period's.
    """
    size = explained_steps.size(period.so_far)
    posted = Interval(period.so_far.start, posted_until or period.so_far.end)
    steps = explained_steps.steps(buckets, posted, shown)
    columns = _apportioned(
        [each.totals.capacity_ms for each in steps], [each.totals.cost_usd for each in steps], total
    )
    rows = [
        (each, _query(request, each.interval), *amounts)
        for each, *amounts in zip(steps, *columns, strict=True)
    ]
    return {"size": size, "steps": rows[:MAX_STEPS], "steps_left_off": len(rows[MAX_STEPS:])}


def _by_state(totals: Totals) -> Context:
    """The totals, and of each state that has any of the time its hundredths of GPU-hours and cents,
    which sum to theirs.
    """
    gpu_ms = totals.shown_states
    usd = totals.shown_cost
    states = [state for state, ms in gpu_ms.items() if ms]
    total = _amounts(totals)
    are_wasted = [state in HEADLINE_STATES for state in states]
    hours = [printed.hours(gpu_ms[state]) for state in states]
    columns = (
        printed.apportioned(hours, total["gpu_hours"]),
        _dollars([usd[state] for state in states], are_wasted, total),
    )
    exact = [(state, gpu_ms[state], usd[state]) for state in states]
    return {
        "whole": totals,
        "total": total,
        "by_state": list(zip(exact, *columns, strict=True)),
    }


def _up_to(request: HttpRequest, asked: Interval) -> Interval:
    """The period as far as the address says that its hours are to be shown."""
    try:
        until = from_ms(int(request.GET.get(UNTIL, "")))
    except (ValueError, OverflowError):
        return asked
    return Interval(asked.start, until) if asked.start < until < asked.end else asked


def _ways(
    request: HttpRequest, period: Period, shown: Interval, next_start: datetime | None
) -> Context:
    """The queries of what lies before the hours that are shown, and after them ("": nothing):
    within the period, whose list of days stays; else of as long a time beside it.
    """
    asked = period.so_far
    before, after = explained_steps.beside(shown, period.interval, period.minute)
    earlier = _query(request, before)
    later = _query(request, after) if after else ""
    if asked.start < shown.start:
        earlier = _within(request, shown.start)
    if next_start is not None and shown.end <= next_start < asked.end:
        later = _within(request, min(next_start + SHOWN_SPAN, asked.end))
    return {"earlier": earlier, "later": later}


def _within(request: HttpRequest, until: datetime) -> str:
    """Of the same period, with the hours up to then."""
    kept = {name: request.GET[name] for name in request.GET if name != UNTIL}
    return urlencode(kept | {UNTIL: to_ms(until)})


def _query(request: HttpRequest, interval: Interval) -> str:
    """Of the same explanation for that time."""
    named = ("gpu", "job", "state", "tz")
    kept = {name: request.GET[name] for name in named if name in request.GET}
    return urlencode(kept | {"from": interval.start.isoformat(), "to": interval.end.isoformat()})


@takes("gpu", "job", "state", UNTIL, *PERIOD)
def _of_gpu(request: HttpRequest) -> HttpResponse:
    """`?gpu=&from=&to=[&job=][&state=][&until=]`: the newest 3 hours of a longer period, or those
    that end by `until` (ms); with an empty job what no job held. Who does not see everything names
    a job, all of whose time is his to see.
    """
    gpu = existing(inventory.gpu(request.GET["gpu"]))
    states = _states(request)
    job, holder = _holder(request.GET.get("job"))
    period = read_period(request, default="1h")
    which = _which(holder, states)
    interval = explain.newest(gpu, _up_to(request, period.so_far), at_most=SHOWN_SPAN, **which)
    later = explain.next_start(gpu, interval.end, **which)
    context = {"gpu": gpu, **_asked_for(job, holder, states)}
    context |= _shown(request, period, interval, states, gpu)
    context |= _ways(request, period, interval, later)
    context |= _behind(gpu, interval, which, states)
    return page(request, period, _template(request), "fleet", context)


def _which(holder: int | None, states: tuple[str, ...]) -> dict[str, Any]:
    """As the ledger's selectors are asked for it."""
    return {"job_id": holder, "states": _of_ledger(states)}


def _asked_for(job: Job | None, holder: int | None, states: tuple[str, ...]) -> Context:
    """Of whose time and which states it is, and those that can be chosen."""
    is_nobody = holder == explain.NOBODY
    chosen = {"job": job, "is_nobody": is_nobody, "states": states}
    return {**chosen, "every_state": SHOWN_STATES}


def _template(request: HttpRequest) -> str:
    is_part = request.headers.get("HX-Request")
    return f"dashboard/{'_explain' if is_part else 'explain'}.html"


def _totals(request: HttpRequest, interval: Interval, states: tuple[str, ...]) -> Totals:
    """Of the interval itself, where entries are of whole hours."""
    return costs.look(interval, scope=_scope(request, states)).totals()


def _scope(request: HttpRequest, states: tuple[str, ...]) -> Scope:
    return in_states(Scope(gpu=request.GET["gpu"], job=request.GET.get("job")), states)


def _holder(key: str | None) -> tuple[Job | None, int | None]:
    """The job of that key, and by what the ledger knows who held the GPU (None: whoever). Raises
    Http404, also where not all of that is the reader's to see.
    """
    job = get_object_or_404(visible(Job.objects.all()), key=key) if key else None
    if not _is_explained(job):
        raise Http404
    if job is None:
        return None, explain.NOBODY if key == UNALLOCATED else None
    return job, job.pk


def _is_explained(job: Job | None) -> bool:
    """Whether a GPU's time under the job (None: under whomever) is all the reader's to see."""
    return sight() is None if job is None else attribution.seen_spans(job) is None


def _behind(gpu: GPU, interval: Interval, which: dict[str, Any], shown: tuple[str, ...]) -> Context:
    """Entries of the ledger with their dollars, and of the windows behind them the rules that
    decided most of the time, by when, each with the job that held the GPU; `shown`: of these states
    alone, () = of all.
    """
    stretches = explain.stretches(gpu, interval, **which)
    decided = by_rule(_narrowed(stretches, frozenset(shown)) if shown else stretches)
    in_time = sorted(decided[:MAX_RULES], key=lambda each: (each.start_ms, each.end_ms))
    jobs = Job.objects.in_bulk({each.job_id for each in in_time if each.job_id is not None})
    return {
        **_priced(_entries(gpu, interval, which, shown)),
        "windows": [(each, jobs.get(each.job_id)) for each in in_time],
        "left_off": max(0, len(decided) - MAX_RULES),
        "decided": Decisions.of(decided),
        "decided_less": Decisions.of(decided[MAX_RULES:]),
    }


def _narrowed(stretches: Sequence[Stretch], states: frozenset[str]) -> Iterator[Stretch]:
    """Those with time in these states, without their time in others."""
    for stretch in stretches:
        parts = [part for part in stretch.parts if shown_state(part) in states]
        if parts:
            yield stretch if len(parts) == len(stretch.parts) else replace(stretch, parts=parts)


def _entries(
    gpu: GPU, interval: Interval, which: dict[str, Any], shown: tuple[str, ...]
) -> list[Entry | Adjustment]:
    """Of these states as pages show them, () = of all."""
    states = frozenset(shown or SHOWN_STATES)
    return [row for row in explain.rows(gpu, interval, **which) if shown_state(row) in states]


def _priced(entries: Sequence[Entry | Adjustment]) -> Context:
    """The entries with their rates and the cents that sum to the total's."""
    lines = priced(entries)
    usd = [line.usd or Decimal(0) for line in lines]
    return {
        "lines": list(zip(lines, pricing.lines(usd, pricing.CENT), strict=True)),
        "total_usd": pricing.exact_sum(usd),
        "total_ms": sum(line.row.gpu_ms for line in lines),
        "policies": sorted({line.row.policy.version for line in lines}),
        "unpriced": any(line.usd is None for line in lines),
        "list_prices": _how_many([line.rate.is_example for line in lines if line.rate]),
    }


def _how_many(are_so: Sequence[bool]) -> str:
    """Of which a page says so: "all" once above them, "some" beside each, "" nowhere."""
    if not any(are_so):
        return ""
    return "all" if all(are_so) else "some"
