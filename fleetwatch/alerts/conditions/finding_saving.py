"""The condition finding_saving: an open finding that could save much."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal

import numpy as np

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch, named
from fleetwatch.alerts.episodes import FORGET_MS, End, Episode, Firing, Level, Measured, Span
from fleetwatch.alerts.measuring.cause_words import likely, typed, what_to_do
from fleetwatch.alerts.measuring.job_labels import job_labels, owner_words
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.causes import OF_CAPACITY, title
from fleetwatch.diagnosis.findings import machine_facts
from fleetwatch.diagnosis.findings.advice import Advice, advise
from fleetwatch.diagnosis.findings.inbox import Inbox, inbox
from fleetwatch.diagnosis.findings.noted_facts import advice_of
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.notify import wording

PERIOD = timedelta(days=30)
MICRO = 1_000_000

NOT_SEEN = "its cause was not seen for a day"
DECIDED = "somebody decided on it"
LESS = "it could save less by now"


def measure(watch: Watch) -> Measured:
    """Each open finding that could have saved at least the threshold, at the least, in the 30 days
    before the end: in breach from its first five minutes until its cause was not seen for a day.
    What it could have saved at an earlier moment is not kept.
    """
    findings = [line.finding for line in _lines(watch)]
    spans = {str(each.pk): [_span(each, watch)] for each in findings}
    ends = {
        str(each.pk): End(each.last_ms + FORGET_MS, NOT_SEEN)
        for each in findings
        if each.last_ms + FORGET_MS <= watch.end_ms
    }
    left = {key: firing for key, firing in watch.firing.items() if key not in spans}
    decided = _decided(left)
    less = {
        key: [Span(firing.until_ms, watch.end_ms, Level.CLEAR)]
        for key, firing in left.items()
        if key not in decided
    }
    return Measured(spans | less, ends | decided, cleared=LESS)


def _span(finding: Finding, watch: Watch) -> Span:
    end_ms = min(finding.last_ms + FORGET_MS, watch.end_ms)
    return Span(finding.first_ms, end_ms, Level.BREACH)


def _decided(firing: dict[str, Firing]) -> dict[str, End]:
    """Of those of these findings that are open no more, and that are gone, when that was."""
    rows = Finding.objects.filter(pk__in=map(int, firing))
    at = {str(row.pk): row for row in rows}
    ends = {}
    for key, each in firing.items():
        row = at.get(key)
        if row is None or row.status != Finding.Status.OPEN:
            moment = row.decided_at if row else None
            ends[key] = End(to_ms(moment) if moment else each.until_ms, DECIDED)
    return ends


def _period(watch: Watch) -> Interval:
    end = from_ms(watch.end_ms)
    return Interval(end - PERIOD, end)


def _lines(watch: Watch) -> list[Line]:
    """Open findings that could save so much, of jobs and of machines; what is capacity has rules of
    its own.
    """
    every = inbox(_period(watch), now=from_ms(watch.end_ms)).of_status(Finding.Status.OPEN)
    least = Decimal(watch.settings.threshold)
    return [line for line in _worth(every, least) if line.caused.saving.low_usd >= least]


def _worth(every: Inbox, least: Decimal) -> list[Line]:
    """Those in the middle of whose range stands at least so much; they are ranked by it."""
    count = int(np.count_nonzero(every.of_jobs.worth >= int(2 * least * MICRO)))
    places = (line for line in every.of_places if line.finding.cause not in OF_CAPACITY)
    return [*every.of_jobs[:count], *places]


def _subject(line: Line) -> str:
    return str(line.finding.pk)


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """What each finding took and could save; None of one that saves less by now, or is decided."""
    wanted = {each.subject for each in episodes}
    period = _period(watch)
    shown = _read([line for line in _lines(watch) if _subject(line) in wanted], period)
    lines = {_subject(line): line for line in shown}
    return [
        _breach(each, lines[each.subject], watch) if each.subject in lines else None
        for each in episodes
    ]


def _read(lines: Iterable[Line], period: Interval) -> list[Line]:
    """The lines with their jobs."""
    every = list(lines)
    of_jobs = [line for line in every if line.finding.job_id is not None]
    places = [line for line in every if line.finding.job_id is None]
    return [*selectors.with_jobs(of_jobs, before=period.end), *places]


def _breach(episode: Episode, line: Line, watch: Watch) -> Breach:
    finding = line.finding
    cause = title(finding.cause)
    where = named(finding.subject, finding.job.name if finding.job else "")
    advice = _advice(line, _period(watch))
    return Breach(
        subject=episode.subject,
        kind="finding",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="undecided",
        tag="cause found",
        title=f"{cause} · {where}",
        where=where,
        what=f"Nobody decided on “{cause}” of {where}",
        has=f"Nobody has decided on “{cause}” of {where}",
        had="It had been open",
        limit=f"could have saved ≥ ${watch.settings.threshold:g} in 30 days",
        name=cause,
        owner=_owner(finding),
        usd_per_hour=_per_hour(line, watch),
        cost_usd=pricing.usd(line.caused.wasted_usd),
        has_example_rates=line.caused.has_example_rates,
        lines=(_saving(line), *likely(advice)),
        actions=what_to_do(advice),
        codes=typed(advice),
        labels=_labels(finding),
    )


def _saving(line: Line) -> tuple[str, str]:
    saving = line.caused.saving
    return "Could have saved", f"{wording.between(saving.low_usd, saving.high_usd)} in 30 days"


def _owner(finding: Finding) -> str:
    job = finding.job
    return owner_words(job.user, job.team.slug if job.team else "") if job else ""


def _labels(finding: Finding) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {"cause": (finding.cause,)}
    if finding.job is not None:
        return {**labels, **job_labels(finding.job, ())}
    if finding.node is not None:
        return labels | {"node": (finding.node.name,)}
    return labels | {"cluster": (finding.cluster,)}


def _advice(line: Line, period: Interval) -> Advice:
    finding = line.finding
    if finding.job is None:
        return advise(finding.cause, machine_facts.facts(finding, period))
    [advice] = advice_of([line])
    return advice


def _per_hour(line: Line, watch: Watch) -> Decimal | None:
    """What it wasted by the hours from its first to its last five minutes in the period."""
    first_ms = max(line.finding.first_ms, _period(watch).start_ms)
    lasted_ms = min(line.finding.last_ms, watch.end_ms) - first_ms
    return pricing.usd(line.caused.wasted_usd * HOUR_MS / lasted_ms) if lasted_ms > 0 else None


CONDITION = Condition(
    name="finding_saving",
    label="Cause found with a saving above",
    sentence=(
        "Fires when a cause that diagnosis found {minutes} minutes ago, and on which nobody"
        " decided, could have saved at least ${threshold} in 30 days."
    ),
    kind="finding",
    unit="$",
    low=1,
    high=1_000_000,
    usual=Settings(threshold=100, minutes=60),
    measure=measure,
    describe=describe,
    severity="info",
    every_minutes=60,
    covers="what it wasted in 30 days",
)
