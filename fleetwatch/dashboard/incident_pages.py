"""What an incident's page shows beside its row: its curve, what to do step by step, and of a GPU
who holds it and the finding of the same cause.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import Q

from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.breach import TIME_LIMIT, Breach, Watch, named
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring.cause_words import FIX, NO_CAUSE, apart, asked_first
from fleetwatch.alerts.measuring.last_holders import is_ended_by_fault
from fleetwatch.alerts.measuring.likely_causes import Likely, likely_of_several, meanwhile
from fleetwatch.alerts.models import Incident, Route
from fleetwatch.alerts.selectors import IncidentView, views_of, visible_incidents
from fleetwatch.alerts.services import settings_of
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.drawing.machine_charts import MARKED, MOST_LINES, UNAVAILABLE, WITHIN
from fleetwatch.dashboard.fault_ends import JUST_BEFORE, runs_usd
from fleetwatch.dashboard.selectors import Holder
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.causes import BY_CODE, SLOWED, of_kind
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.findings.advice import aimed
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.shell import Place
from fleetwatch.figures import pricing
from fleetwatch.inventory import selectors as inventory
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import MINUTE_MS, Interval, to_ms

TYPE = "Type this:"
PIDS = re.compile(r"--pid (\d{1,10})\b")
OF_BUDGETS = ("budget_spent", "budget_forecast")
MAX_HOLDERS = 3
MAX_DIGITS = 8  # of a time limit in minutes: labels come from hosts
FAULTY = "faulty"  # the word of a GPU that can't work
MAX_OTHERS = 5
FROM_JOB = "; from when the job began"
UNIT = "share of the time in which a kernel ran"


@dataclass(frozen=True, slots=True)
class Curve:
    """A chart of the incident: its name and what it is asked, its title, and in words what of
    several GPUs it shows. `is_stack`: panels under each other.
    """

    chart: str
    query: str
    title: str
    about: str
    is_stack: bool = False


def of_now(view: IncidentView, now: datetime) -> IncidentView:
    """Of a budget's incident that goes on the figures of now, as /budgets has them; all others as
    they are.
    """
    incident = view.incident
    if view.breach.kind != "budget" or incident.ended_ms is not None:
        return view
    now_ms = to_ms(now)
    episode = Episode(incident.subject, incident.since_ms, now_ms, incident.fired_ms)
    watch = Watch(settings=settings_of(incident.rule), start_ms=incident.since_ms, end_ms=now_ms)
    [breach] = condition(incident.rule.condition).describe([episode], watch)
    return view.counted_to(now) if breach is None else replace(view, breach=breach)


def lacks_route(incident: Incident) -> bool:
    """Whether it is of a team's budget, and the team has no channel of its own."""
    if incident.team_id is None or incident.rule.condition not in OF_BUDGETS:
        return False
    routes = Route.objects.filter(team=incident.team_id, channels__isnull=False)
    return not routes.exists()


def begun_ms(breach: Breach) -> int | None:
    """When the job began that it is about; None of what is no job, or where nobody said."""
    if breach.kind != "job":
        return None
    return Job.objects.filter(key=breach.subject).values_list("start_ms", flat=True).first()


def job_end_ms(breach: Breach) -> int | None:
    """When the job ended that it is about; None of what is no job, and where it runs."""
    if breach.kind != "job":
        return None
    return Job.objects.filter(key=breach.subject).values_list("end_ms", flat=True).first()


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """When a job's scheduler ends it at the latest, and what it costs by then beyond what is
    counted so far.
    """

    ends_ms: int
    usd: Decimal | None


def time_limit(view: IncidentView, now: datetime) -> TimeLimit | None:
    """None where it has none, its begin is not known, or it is passed."""
    breach = view.breach
    begins_ms = begun_ms(breach)
    minutes = breach.label(TIME_LIMIT)
    if begins_ms is None or not minutes.isdecimal() or len(minutes) > MAX_DIGITS:
        return None
    ends_ms = begins_ms + int(minutes) * MINUTE_MS
    if ends_ms <= to_ms(now) or view.incident.ended_ms is not None:
        return None
    left_ms = ends_ms - breach.until_ms
    per_hour = breach.usd_per_hour
    usd = None if per_hour is None else pricing.usd(pricing.price([(left_ms, per_hour)]))
    return TimeLimit(ends_ms, usd)


def curve(breach: Breach, around: str, *, state: str = "", from_job: bool = False) -> Curve | None:
    """Of its GPU, of a job's all; None where it is of none, or the reader sees no machines.
    `around` names the time, as an address does; what of it was mostly the `state` is shaded ("":
    nothing); `from_job`: it begins with the job.
    """
    uuids = uuids_of(breach)
    if not uuids or sight() is not None:
        return None
    query = f"{urlencode({'gpu': ','.join(uuids[:MOST_LINES])})}&{around}"
    if breach.label("cause") == SLOWED:
        about = "as it was read; shaded is the time that diagnosis judged slowed"
        return Curve("gpu-slowed", query, f"What slowed {breach.where}", about, is_stack=True)
    shaded = _shaded(breach, state)
    chart, unit = _chart_of(len(uuids))
    about = f"{unit}{FROM_JOB * from_job}{shaded.about}"
    return Curve(chart, f"{query}{shaded.query}", f"GPU utilisation, {breach.where}", about)


class _Shaded(NamedTuple):
    """What of the time is shaded: as an address asks for it, and in words; "" = nothing."""

    query: str
    about: str


def _shaded(breach: Breach, state: str) -> _Shaded:
    if not state:
        return _Shaded("", "")
    marked = {MARKED: state, WITHIN: f"{breach.since_ms}-{breach.until_ms}"}
    shaded = f"; shaded is what was mostly {state}"
    if state == UNAVAILABLE:
        shaded = "; a line marks the fault, shaded is the time in which the GPU could not work"
    return _Shaded(f"&{urlencode(marked)}", shaded)


def uuids_of(breach: Breach) -> list[str]:
    """Of the GPUs that it is about, as it was told; [] where it is about none."""
    if breach.kind == "gpu":
        return [breach.subject]
    gpus = breach.facts.get("gpus", ()) if breach.kind == "job" else ()
    return [gpu["uuid"] for gpu in gpus if "uuid" in gpu]


def _chart_of(count: int) -> tuple[str, str]:
    """Of so many GPUs the chart, and in words which of them it draws, in which unit."""
    if count == 1:
        return "gpu-util", UNIT
    shown = "a line per GPU" if count <= MOST_LINES else f"{MOST_LINES} of its {count} GPUs"
    return "gpus-util", f"{shown}, averages of five minutes or longer; {UNIT}"


@dataclass(frozen=True, slots=True)
class Note:
    """What else is to be said, and of what looks the same the steps that tell it apart."""

    text: str
    tell: tuple[Step, ...] = ()


def notes(texts: Iterable[str], kind: str) -> list[Note]:
    """Of a job of that kind, in the order of what its message says: steps apart from sentences."""
    causes = [of_kind(code, kind) for code in BY_CODE]
    return [_note(text, causes) for text in texts]


def _note(text: str, causes: Iterable[Cause]) -> Note:
    cause = next((each for each in causes if each.alike and text.startswith(each.alike)), None)
    if cause is None:
        return Note(text)
    # the message names the process by its number, where one was seen
    pids = tuple(int(pid) for pid in PIDS.findall(text)[:1])
    return Note(cause.alike, tuple(aimed(step, Place(pids=pids)) for step in cause.tell))


def steps(breach: Breach, likely: Likely | None = None) -> tuple[list[Step], list[str]]:
    """What to do in order, each with what to type; and what else there is to say of it. Where
    diagnosis named a `likely` cause since the breach was told, its steps; and where nothing is to
    be ended, those of its finding, which know the job's numbers.
    """
    actions = [action for action in breach.actions if action]
    if likely is not None and actions == [NO_CAUSE]:
        return likely.steps, []
    if likely is not None and likely.finding_id and not breach.command:
        return likely.steps, [action for action in actions if not action.startswith(FIX)]
    first = _told_steps(actions, breach)
    if breach.command and not any(step.code == breach.command for step in first):
        text = first[0].text if first else TYPE
        first[:1] = [Step(text, breach.command)]
    return first, [action for action in actions if not action.startswith(FIX)]


def first_steps(views: Iterable[IncidentView], now: datetime) -> dict[int, Step]:
    """By id of each what its page says to do first; not there where it says nothing, and where
    nothing is to be done. Diagnosis is asked of all at once, and only where its word changes that.
    """
    going_on = [view for view in views if not is_left(view.incident)]
    is_open = [not each.breach.command or NO_CAUSE in each.breach.actions for each in going_on]
    asked = [each for each, is_asked in zip(going_on, is_open, strict=True) if is_asked]
    words = likely_of_several([each.breach for each in asked], now)
    likely_of = {each.incident.pk: word for each, word in zip(asked, words, strict=True)}
    first = {
        each.incident.pk: steps(each.breach, likely_of.get(each.incident.pk))[0][:1]
        for each in going_on
    }
    return {pk: step[0] for pk, step in first.items() if step}


def is_left(incident: Incident) -> bool:
    """Whether its job is not to be ended: it works, or may by now, or somebody said why it is
    needed.
    """
    return incident.ended_ms is not None or incident.is_accepted or bool(incident.note)


def ask_owner(breach: Breach) -> Step:
    """What comes first where a job is not to be ended now: who knows whether it is needed."""
    job = named(breach.subject, breach.name)
    ask = _step(asked_first(breach.owner, job), breach).text
    return Step(f"{ask} If it is, record why under Not waste; if it is not, have it ended.")


def next_steps(views: Iterable[IncidentView], now: datetime) -> dict[int, Step]:
    """The same of those of a list, in a sentence."""
    return {pk: replace(step, text=_sentence(step)) for pk, step in first_steps(views, now).items()}


def _sentence(step: Step) -> str:
    """The first of its text."""
    sentence, dot, _ = step.text.partition(". ")
    return f"{sentence}{dot.strip()}"


def _told_steps(actions: Sequence[str], breach: Breach) -> list[Step]:
    """Those that the breach's message named."""
    return [_step(action, breach) for action in actions if action.startswith(FIX)]


def _step(action: str, breach: Breach) -> Step:
    """Apart from its sentence what is to be typed."""
    step = apart(action, breach)
    text = step.text.removeprefix(FIX)
    text = f"{text[:1].upper()}{text[1:]}"
    cause = BY_CODE.get(breach.label("cause"))
    return Step(text or TYPE, step.code or _code_of(cause, text))


def _code_of(cause: Cause | None, sentence: str) -> str:
    """What to type for the cause's step, of several lines, which no message has."""
    fixes = cause.fixes if cause else ()
    return next((step.code for step in fixes if step.text == sentence), "")


@dataclass(frozen=True, slots=True)
class Held:
    """A job that held the GPU, and until when: None = it may hold it still. `ended_usd`: what the
    run had cost, of one that the fault ended.
    """

    job: Job
    until_ms: int | None
    ended_usd: Decimal | None = None


def holders(breach: Breach) -> list[Held]:
    """Of a GPU the jobs that held it meanwhile or just before, the latest first, as far as the
    reader sees them by name; none of what is of no GPU.
    """
    gpu = inventory.gpu(breach.subject) if breach.kind == "gpu" else None
    if gpu is None:
        return []
    span = meanwhile(breach)
    held = selectors.holders(gpu, Interval(span.start - JUST_BEFORE, span.end))
    latest = {each.allocation.job_id: each for each in reversed(held)}
    jobs = list(dict.fromkeys(each.allocation.job for each in held))[:MAX_HOLDERS]
    if sight() is not None:
        seen = set(visible(Job.objects.filter(pk__in=[job.pk for job in jobs])))
        jobs = [job for job in jobs if job in seen]
    return [_held(job, latest[job.pk], breach) for job in jobs]


def _held(job: Job, hold: Holder, breach: Breach) -> Held:
    until_ms = _held_until_ms(job, hold)
    is_ended = breach.word == FAULTY and is_ended_by_fault(until_ms, breach.since_ms)
    return Held(job, until_ms, runs_usd([job])[job.pk] if is_ended else None)


def _held_until_ms(job: Job, hold: Holder) -> int | None:
    """A GPU that is lost is not heard after its job's end: the job's own end says more."""
    if job.end_ms is not None:
        return min(job.end_ms, hold.end_ms) if hold.end_ms else job.end_ms
    return None if hold.is_open else hold.end_ms


def of_same_gpu(incident: Incident, breach: Breach) -> list[IncidentView]:
    """The other incidents of the GPU that went on meanwhile, go on now, or follow at once (memory
    errors end in a fault), the oldest first; of one rule and beginning the first.
    """
    if breach.kind != "gpu":
        return []
    others = visible_incidents().filter(subject=breach.subject).exclude(pk=incident.pk)
    is_over = Q(ended_ms__lt=incident.since_ms)
    at_once = others.exclude(is_over).exclude(fired_ms=None)
    if incident.ended_ms is not None:
        at_once = at_once.filter(since_ms__lte=incident.ended_ms)
    events = at_once.order_by("since_ms", "rule_id", "pk").distinct("since_ms", "rule_id")
    return views_of(events[:MAX_OTHERS])


def finding_line(breach: Breach, now: datetime) -> Line | None:
    """The finding of the GPU's node and the same cause, with its dollars as its own page has them;
    None where there is none, or the reader sees no machines.
    """
    if breach.kind != "gpu" or sight() is not None:
        return None
    named = {"node__name": breach.label("node"), "cause": breach.label("cause"), "job": None}
    finding = Finding.objects.filter(**named).select_related("node", "assignee").first()
    if finding is None:
        return None
    return machine_findings.line_of(finding, machine_findings.whole(finding), now=now)
