"""Capacity: short or too much of it, and what other GPUs would have meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from operator import attrgetter

from django.db.models import Count, Q
from django.http import HttpRequest

from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.drawing.capacity_charts import narrowed_to
from fleetwatch.dashboard.drawing.curve_svg import Value, curve
from fleetwatch.dashboard.forms.what_if_form import NAMES, WhatIfForm, read_what_if
from fleetwatch.dashboard.parameters import PERIOD
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.recorded_part import record_of
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.diagnosis.queues import waiting
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.pricing import CENT, exact_sum, lines
from fleetwatch.finance.break_even import uses
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.released import Contracts, ReleasedGPUs, contracts, released
from fleetwatch.inventory.models import GPUModel
from fleetwatch.jobs.selectors import Waits, pending_jobs, waits
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour, to_ms
from fleetwatch.planning.model_hours import ModelHours
from fleetwatch.planning.model_lines import model_lines, whole_line
from fleetwatch.planning.replayed_runs import Outcome
from fleetwatch.planning.selectors import (
    LONGEST,
    SUBJECTS,
    model_hours,
    while_waiting,
    whole_hours,
)
from fleetwatch.planning.verdict import verdict
from fleetwatch.planning.what_if import (
    Past,
    TooManyHoldsError,
    WhatIf,
    known_until,
    past,
    steps_fewer,
    what_if,
    whole_days,
)

MOST_PARTITIONS = 12
ALL_PARTITIONS = 10_000
CALM_MS = HOUR_MS // 2  # of a model's runs on the mean: a longer wait is a long one
REPLAYED = timedelta(days=30)
FALL = 0.95  # of the wait before: what is less than that apart nobody stumbles over


@shows("dashboard/capacity.html", "capacity", *SUBJECTS, *PERIOD, needs_gpus=True)
def capacity(request: HttpRequest, period: Period) -> Context:
    """The filters narrow the machines; commitments and queues are of all of them."""
    filters = {name: request.GET[name] for name in SUBJECTS if request.GET.get(name)}
    narrowed = narrowed_to(filters)
    hours = whole_hours(period.so_far, period.now)
    return {
        "filters": filters,
        **_hours(period, hours),
        **_lines(model_hours(hours, narrowed) if hours else [], hours, period),
        **_free_usd(hours, filters),
        "while_waiting": while_waiting(hours, narrowed) if hours else None,
        "queues": waiting(to_ms(period.now)),
        "pending": pending_jobs(to_ms(period.now)),
        "waits": waits(period.interval.start_ms, period.interval.end_ms, limit=MOST_PARTITIONS),
        **_commitments(hours or period.so_far, period.now),
        **_choices(period.now),
    }


def _lines(models: Sequence[ModelHours], hours: Interval | None, period: Period) -> Context:
    """Each model's figures, those of all together, what they allow to say, and since when there
    are any.
    """
    by_model = model_lines(models)
    whole = whole_line(models)
    spare = verdict(by_model, whole, _count(hours)) if whole and hours else None
    return {
        **{"whole": whole, "lines": by_model, "verdict": spare},
        **record_of(period, whole.capacity_ms if whole else 0),
    }


def _free_usd(hours: Interval | None, filters: Mapping[str, str]) -> Context:
    """What free time cost, by GPU model and in all, and such cents as sum to it; nothing where only
    some of its machines are looked at.
    """
    if hours is None or filters.keys() - {"gpu_model"}:
        return {"free_usd": {}}
    groups = figures.totals_by(hours, "gpu_model")
    free_usd = {group.label: group.totals.cost_by_state["free"] for group in groups}
    cents = lines(list(free_usd.values()), CENT)
    return {
        "free_usd": free_usd,
        "free_cents": dict(zip(free_usd, cents, strict=True)),
        "free_total_usd": exact_sum(free_usd.values()),
    }


def _count(hours: Interval) -> int:
    return (hours.end_ms - hours.start_ms) // HOUR_MS


def _hours(period: Period, hours: Interval | None) -> Context:
    """Which hours count, and how many of how many; whether there were too many to count all."""
    return {
        "hours": hours,
        "counted_hours": _count(hours) if hours else 0,
        "asked_hours": _touched(period.so_far),
        "is_cut": hours is not None and _is_cut(hours, period.interval),
    }


def _is_cut(hours: Interval, asked: Interval) -> bool:
    """Whether there were more: hours that nobody recorded are none."""
    return hours.end - hours.start == LONGEST and hours.start > ceil_hour(asked.start)


def _touched(interval: Interval) -> int:
    """How many hours it is long, a begun one as a whole: of a week 167 to 169, as clocks change."""
    return -(-interval.duration_ms // HOUR_MS)


def _commitments(interval: Interval, now: datetime) -> Context:
    covered = coverage(interval, now=now)
    return {"counted": covered.interval, "commitments": uses(covered.lines, now)}


def _choices(now: datetime) -> Context:
    """GPU models by name, what is asked for where nothing is said, an eighth of the largest, and
    what is replayed, in words.
    """
    models = list(
        GPUModel.objects.annotate(
            present=Count("gpus", filter=Q(gpus__parent=None, gpus__retired_ms=None)),
            known=Count("gpus"),
        )
        .filter(known__gt=0)
        .order_by("name")
    )
    largest = max(models, key=attrgetter("present"), default=None)
    return {
        "gpu_models": models,
        "default_of": largest.name if largest else "",
        "default_less": max(1, largest.present // 8) if largest else 1,
        "last_days": _last_days(now),
    }


def _last_days(now: datetime) -> str:
    """What a replay is of where it is small enough: "last 14 days"."""
    until = known_until(now)
    days = whole_days(min(REPLAYED, until - (figures.ledger_began() or until)))
    return f"last {days} days" if days > 1 else "last day"


@shows("dashboard/what_if.html", "capacity", *NAMES, needs_gpus=True)
def capacity_what_if(request: HttpRequest, period: Period) -> Context:
    """The last weeks again with the GPUs that the address asks for; without any, the form, and
    where to ask for the default.
    """
    context = _form(request, period.now)
    form = context["form"]
    if form.asked is None:
        return context
    try:
        history = past(period.now)
    except TooManyHoldsError:
        return context | {"is_too_much": True}
    replayed = what_if(form.asked, history)
    if too_many := _more_than_there_are(replayed):
        return context | {"form": replace(form, faults={"less": too_many})}
    held = contracts(period.now)
    return context | {
        "replayed": replayed,
        "paid": released(replayed, held),
        "real_wait": _real_wait(replayed),
        **_verdict(replayed, elsewhere=form.asked.elsewhere),
        **({} if form.asked.elsewhere or replayed.added else _steps(form, history, held)),
    }


def _real_wait(replayed: WhatIf) -> Waits | None:
    """How long all the jobs had waited that really began in the days that are replayed; None where
    nobody knows.
    """
    every = waits(to_ms(replayed.began), replayed.interval.end_ms, limit=ALL_PARTITIONS)
    jobs = sum(each.jobs for each in every)
    return Waits("", "", jobs, sum(each.wait_ms for each in every)) if jobs else None


def _form(request: HttpRequest, now: datetime) -> Context:
    """What is asked for, of what can be."""
    choices = _choices(now)
    form = read_what_if(request.GET, [model.name for model in choices["gpu_models"]])
    return {"form": form, "faults": form.faults, **choices}


def _verdict(replayed: WhatIf, *, elsewhere: bool) -> Context:
    """Whose runs the page speaks of: those of the one model that changes, else of the fleet, as
    runs that move to another model may delay that one's; and whether GPUs that go keep them
    waiting for long.
    """
    subject = replayed if elsewhere else replayed.only_changed or replayed
    outcome = subject.outcome
    is_harmful = bool(replayed.removed and outcome.runs) and not _is_calm(outcome)
    return {"subject": subject, "outcome": outcome, "is_harmful": is_harmful}


@dataclass(frozen=True, slots=True)
class Step:
    """What became of a model's runs with so many GPUs fewer, what a month is cheaper now (None: no
    rate), and once no commitment pays for them.
    """

    fewer: int
    outcome: Outcome
    now_usd: Decimal | None
    later_usd: Decimal | None


def _steps(form: WhatIfForm, history: Past, held: Contracts) -> Context:
    """The same with some numbers of GPUs fewer, as rows and as curves: of runs that keep to their
    model, with none added.
    """
    gpu_model = form.values["less_of"]
    asked = int(form.values["less"] or 0)
    replays = steps_fewer(gpu_model, history, asked=asked) if asked else []
    steps = [_step(each, gpu_model, released(each, held)) for each in replays]
    if len(steps) < 2:
        return {"steps": steps, "asked": asked}
    return {
        "steps": steps,
        "asked": asked,
        "is_paid": any(each.now_usd != each.later_usd for each in steps),
        "is_cut_off": any(each.outcome.cut for each in steps),
        "falls": first_fall(steps),
        "gentler": gentler(steps, asked),
        "hardest": None if _is_calm(steps[0].outcome) else steps[0],
        **_curves(steps),
    }


def _step(replayed: WhatIf, gpu_model: str, paid: ReleasedGPUs) -> Step:
    outcome = replayed.of(gpu_model).outcome
    return Step(replayed.fewer, outcome, paid.now_usd, paid.later_usd)


def _curves(steps: Sequence[Step]) -> Context:
    """What is saved has none where a GPU has no rate; a step at which no run fits has no wait."""
    waits = [_wait(step) for step in steps if step.outcome.fitting]
    curves = {"wait_curve": curve([Value(0, 0.0, "0"), *waits])} if waits else {}
    if all(step.later_usd is not None for step in steps):
        curves["saved_curve"] = curve([Value(0, 0.0, "$0"), *map(_saved, steps)])
    return curves


def _wait(step: Step) -> Value:
    wait_ms = step.outcome.mean_wait_of_all_ms
    is_least = bool(step.outcome.cut)
    return Value(step.fewer, float(wait_ms), numbers.duration(wait_ms), is_least=is_least)


def _saved(step: Step) -> Value:
    """Once no commitment pays: until then a curve may be flat, and says nothing."""
    saved_usd = step.later_usd or Decimal(0)
    return Value(step.fewer, float(saved_usd), numbers.about(saved_usd))


def first_fall(steps: Sequence[Step]) -> tuple[Step, Step] | None:
    """The first two neighbours of which the one with fewer GPUs clearly has a shorter average wait,
    or fewer runs that wait: what a reader stumbles over. Where more waits are cut off at the end of
    the replayed time, the chart says so.
    """
    falls = (
        (before, after)
        for before, after in pairwise(steps)
        if after.outcome.cut <= before.outcome.cut or after.outcome.unfit > before.outcome.unfit
        if after.outcome.mean_wait_ms < FALL * before.outcome.mean_wait_ms
        or after.outcome.waited < FALL * before.outcome.waited
    )
    return next(falls, None)


def gentler(steps: Sequence[Step], asked: int) -> Step | None:
    """The largest step below what is asked for at which runs wait half an hour at most on the mean
    of all, and all fit; None where there is none, or that is so of what is asked for.
    """
    calm = [step for step in steps if step.fewer <= asked and _is_calm(step.outcome)]
    largest = max(calm, key=attrgetter("fewer"), default=None)
    return largest if largest and largest.fewer < asked else None


def _is_calm(outcome: Outcome) -> bool:
    return not outcome.unfit and outcome.mean_wait_of_all_ms <= CALM_MS


def _more_than_there_are(replayed: WhatIf) -> str:
    """Why so many can't be taken away, as a sentence; "" where they can."""
    for each in replayed.models:
        if each.fewer > each.gpus:
            return f"There are {each.gpus} {each.gpu_model}: {each.fewer} fewer can't be asked for."
    return ""
