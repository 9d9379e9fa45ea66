"""Findings of machines and of the queue: their rows in the inbox, and the page of one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from fleetwatch.dashboard import slowed_gpus
from fleetwatch.dashboard.driver_log import HostEvent, driver_log
from fleetwatch.dashboard.fault_ends import ended_by_fault, most_lost_usd
from fleetwatch.dashboard.numbers import in_ranges
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import BY_CODE, FAILURES, SLOWED
from fleetwatch.diagnosis.causes.gpu_fault import OF_APPLICATIONS
from fleetwatch.diagnosis.findings import (
    clock_losses,
    evidence,
    inbox,
    machine_episodes,
    machine_findings,
)
from fleetwatch.diagnosis.findings.back_again import back_since
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from fleetwatch.diagnosis.findings.inbox import Explained
from fleetwatch.diagnosis.findings.machine_findings import Affected
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.findings.slowed_ends import SlowedEnd, slowed_ends
from fleetwatch.diagnosis.findings.state_ends import state_ends
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import FOREVER_MS
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.telemetry.models import HealthEvent

EVENTS = 20
MAX_PROCESSES = 100
MAX_NUMBERS = 4  # of GPUs, in a title


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A line with its words."""

    line: Line
    cause: Cause
    confidence: str
    is_range: bool  # what could have been used is a range; else all that is affected is shown
    clock_loss: ClockLoss | None = None  # of slowed GPUs, beside what the ledger counts
    slowed: SlowedEnd | None = None  # of these until when they were
    back_ms: int | None = None  # of failed ones since when they work again, by their driver
    left_ms: int | None = None  # of what is over when the last GPU left its state

    @property
    def finding(self) -> Finding:
        return self.line.finding

    @property
    def has_three_figures(self) -> bool:
        """Of the head of its page, but for what a lower clock cost: what is at stake, what it took,
        and how sure that is.
        """
        return self.is_range or not self.cause.machine.worth

    @property
    def title(self) -> str:
        """Its cause, in the past where its node was heard since without it."""
        is_past = is_heard_since(self.finding) if self.slowed is None else self.slowed.is_over
        is_past = is_past or self.back_ms is not None
        return (is_past and self.cause.machine.past) or self.cause.title

    @property
    def last_ms(self) -> int:
        """Until when it was seen."""
        last_ms = self.finding.last_ms if self.slowed is None else self.slowed.until_ms
        return min(last_ms, self.back_ms or last_ms, self.left_ms or last_ms)


def is_heard_since(finding: Finding) -> bool:
    """Whether its node was heard an hour and more since without it."""
    heard_ms = finding.node.last_ms if finding.node is not None else None
    return heard_ms is not None and finding.last_ms < heard_ms - HOUR_MS


def row(line: Line) -> PlaceRow:
    cause = BY_CODE[line.finding.cause]
    confidence = CONFIDENCES[line.caused.confidence]
    return PlaceRow(line, cause, confidence, machine_findings.is_range(line.finding))


def rows(lines: Sequence[Line], interval: Interval) -> list[PlaceRow]:
    """Each in its words; of slowed GPUs with what the clock cost, and until when they were; of
    failed ones since when they work again, and of others that are over since when.
    """
    findings = [line.finding for line in lines]
    losses = clock_losses.of_findings(findings, interval)
    ends = slowed_ends(findings)
    back = back_since((finding, finding.last_ms) for finding in findings)
    left = state_ends((each, each.last_ms) for each in findings if is_heard_since(each))
    return [
        replace(
            row(line),
            clock_loss=losses.get(line.finding.pk),
            slowed=ends.get(line.finding.pk),
            back_ms=back.get(line.finding.pk),
            left_ms=left.get(line.finding.pk),
        )
        for line in lines
    ]


def going_on(lines: Sequence[Line], *, since_ms: int) -> list[Line]:
    """Those that were seen since then, and are not known to be over."""
    lately = [line for line in lines if line.finding.last_ms >= since_ms]
    ends = slowed_ends(line.finding for line in lately)
    over = {pk for pk, end in ends.items() if end.is_over}
    over |= back_since((line.finding, line.finding.last_ms) for line in lately).keys()
    return [line for line in lately if line.finding.pk not in over]


def context(finding: Finding, seen: Explained, period: Period) -> dict[str, Any]:
    """What the page of a node's or a cluster's finding shows of it alone."""
    interval = period.interval
    affected = machine_findings.affected(finding, interval)
    shown = rows([seen.line], interval)[0]
    return {
        "row": shown,
        **_clock(shown, interval),
        **_past(finding, affected, period),
        **_hurt(finding, period),
        "unseen_jobs": machine_findings.unseen_jobs(finding, interval),
        **slowed_gpus.of_finding(finding, [line.gpu for line in affected], period),
        "affected": affected,
        "processes": machine_findings.processes(finding, interval)[:MAX_PROCESSES],
        "pools": machine_findings.pools(finding, interval) if finding.cluster else [],
        "events": _events(finding) if finding.cause in FAILURES else [],
        "has_alike": _has_alike(finding),
        "others": _others(finding, period),
        "is_whole": period.interval == machine_findings.whole(finding),
    }


def _clock(shown: PlaceRow, interval: Interval) -> dict[str, Any]:
    """What the lower clock of slowed GPUs cost in all, None where the interval has all of it; and
    whether it cost anything.
    """
    finding = shown.finding
    every = inbox.longer(finding, interval) if finding.cause == SLOWED else None
    in_all = clock_losses.of_findings([finding], every).get(finding.pk) if every else None
    losses = [loss for loss in (shown.clock_loss, in_all) if loss is not None]
    return {"loss_in_all": in_all, "has_clock": any(loss.held_ms > 0 for loss in losses)}


def _hurt(finding: Finding, period: Period) -> dict[str, Any]:
    """The jobs that it hurt, each with those outages of failed GPUs that hit it, and all outages;
    of slowed ones what was measured of the one that was there last.
    """
    hurt = machine_findings.hurt(finding, period.interval)
    outages = machine_episodes.outages(finding, period.interval, now=period.now)
    ended = ended_by_fault(each.job for each in hurt if each.until_ms)
    lost_usd = most_lost_usd(each.job for each in hurt if each.job.pk in ended)
    is_measured = finding.cause == SLOWED and bool(hurt)
    return {
        "hurt": [
            (each, machine_episodes.hit_by(each, outages), lost_usd.get(each.job.pk))
            for each in hurt
        ],
        "outages": outages,
        "episodes": _episodes(finding),
        "evidence": evidence.evidence(_last(hurt), finding.cause) if is_measured else None,
    }


def _episodes(finding: Finding) -> machine_episodes.Episodes | None:
    """How often in all it was what happens anew; None of what is how a machine is."""
    is_anew = bool(BY_CODE[finding.cause].machine.episode)
    return machine_episodes.episodes(finding) if is_anew else None


def _last(hurt: Sequence[machine_findings.Hurt]) -> Job:
    """The job that runs, or ended last: of several that lost most."""
    return max((each.job for each in hurt), key=lambda job: job.end_ms or FOREVER_MS)


def _past(finding: Finding, affected: Sequence[Affected], period: Period) -> dict[str, Any]:
    """Since when it is over, None while it goes on; and what it is called then: "Was broken:
    a100-06 GPU 3 · 20–22 Nov", in a part of its time without the days.
    """
    over_ms = machine_findings.over_since_ms(finding)
    past = BY_CODE[finding.cause].machine.past
    if over_ms is None or not past:
        return {"over_ms": over_ms, "past_title": ""}
    first, last = (period.local(from_ms(at_ms)) for at_ms in (finding.first_ms, over_ms))
    is_whole = period.interval.start_ms <= finding.first_ms
    days = f" · {days_in_words(first, last)}" if is_whole else ""
    gpus = _numbers([line.gpu for line in affected])
    return {
        "over_ms": over_ms,
        "past_title": f"{past}: {finding.subject}{gpus}{days}",
    }


def _numbers(gpus: Sequence[GPU]) -> str:
    """Of a few GPUs their numbers: " GPU 3", " GPUs 0–3"; "" of many, or where one has none."""
    indexes = sorted({gpu.index for gpu in gpus if gpu.index is not None})
    if not 0 < len(indexes) == len(gpus) <= MAX_NUMBERS:
        return ""
    return f" GPU{'s'[: len(indexes) - 1]} {in_ranges(indexes)}"


def days_in_words(first: datetime, last: datetime) -> str:
    """The days of both: "20–22 Nov", "30 Nov – 2 Dec", or one alone."""
    if first.date() == last.date():
        return f"{last:%-d %b}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first:%-d}–{last:%-d %b}"
    return f"{first:%-d %b} – {last:%-d %b}"


def _others(finding: Finding, period: Period) -> list[PlaceRow]:
    """The node's other findings; of a queue none."""
    if finding.node is None:
        return []
    node = finding.node.name
    lines = machine_findings.findings(period.interval, now=period.now, node=node)
    return rows([line for line in lines if line.finding.pk != finding.pk], period.interval)


def _has_alike(finding: Finding) -> bool:
    """Whether it may be what its cause is taken for: of failures by XIDs of applications alone."""
    if finding.cause not in FAILURES:
        return True
    return _noted(finding).filter(kind="xid", code__in=OF_APPLICATIONS).exists()


def _events(finding: Finding) -> list[HealthEvent | HostEvent]:
    """What the driver said of the node's GPUs, the newest, since half a day before it was seen
    first: errors come hours before a GPU fails.
    """
    return driver_log(_noted(finding).select_related("gpu").order_by("-at_ms")[:EVENTS])


def _noted(finding: Finding) -> QuerySet[HealthEvent]:
    return HealthEvent.objects.filter(
        node=finding.node, at_ms__gte=finding.first_ms - 12 * HOUR_MS, at_ms__lt=finding.last_ms
    )
