"""What a node's agent went through in seven days: hours in which GPU time was not observed, starts
of the machine, and how its batches came.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Sum

from fleetwatch.dashboard.entry_words import REASONS
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.judgement.rule_words import OUTAGES
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, floor_hour, to_ms
from fleetwatch.telemetry.arrivals import Arrivals, Boot, arrivals, boots
from fleetwatch.telemetry.models import HealthEvent

BACK = timedelta(days=7)
HOURS = BACK // timedelta(hours=1)
NO_ANSWER = ("driver_missing", "driver_mismatch", "nvml_stuck")
OF_THE_DRIVER = (*NO_ANSWER, "driver_ok")
STARTS = {"boot": "its machine started then", "driver_opened": "its agent started then"}
NOTHING_TELLS = "no start or outage was reported then: see the agent’s log"
MOST = 20
UNITS = 24  # of a bar's height
WIDTH = 0.86  # of an hour: a gap parts it from the next
LEAST = 2  # of them, of what is not nothing
Lost = Mapping[int, Mapping[str, int]]  # an hour's start -> reason -> GPU milliseconds


@dataclass(frozen=True, slots=True)
class HourBar:
    """An hour of the chart: its place and how wide it is, of an hour, and the height of what was
    observed and of what was not.
    """

    x: int
    width: float
    seen: float
    lost: float


@dataclass(frozen=True, slots=True)
class Happening:
    """Something of the history; `lost_ms` is GPU time that was not observed, None of the rest."""

    kind: str
    start_ms: int
    end_ms: int | None
    lost_ms: int | None = None
    text: str = ""

    @property
    def is_within_a_day(self) -> bool:
        """Whether its end needs no date."""
        return self.end_ms is not None and self.end_ms - self.start_ms < 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class AgentHistory:
    """Bars by hour, all `hours` wide up to now, what happened (the newest first), how batches came
    (None: too few are kept), and the share of GPU time that was observed (None: there was none).
    """

    since: datetime
    hours: float
    bars: Sequence[HourBar]
    happenings: Sequence[Happening]
    arrivals: Arrivals | None
    observed: float | None


def agent_history(node: Node, now: datetime) -> AgentHistory:
    """Of the node's agent."""
    since = floor_hour(now) - BACK + timedelta(hours=1)
    hours = (to_ms(now) - to_ms(since)) / HOUR_MS
    whole, lost = _hours(node, since)
    boot_ms = node.facts_order[0] if node.facts_order else 0
    return AgentHistory(
        since=since,
        hours=round(hours, 2),
        bars=_bars(to_ms(since), whole, lost, hours),
        happenings=_happenings(node, to_ms(since), lost),
        arrivals=arrivals(node.pk, boot_ms, now),
        observed=_observed(whole, lost),
    )


def _happenings(node: Node, since_ms: int, lost: Lost) -> list[Happening]:
    """The newest first."""
    events = HealthEvent.objects.filter(node=node, kind__in=OF_THE_DRIVER, at_ms__gte=since_ms)
    others = [
        *map(of_boot, boots(node.pk, since_ms)),
        *(_of_event(*each) for each in with_kinds(events.order_by("-at_ms")[:MOST])),
    ]
    every = [*(beside_starts(gap, others) for gap in gaps(lost)), *others]
    return sorted(every, key=lambda each: -each.start_ms)[:MOST]


def beside_starts(gap: Happening, others: Iterable[Happening]) -> Happening:
    """The gap with what happened in its hours that may be why: a start, or that nothing tells."""
    if any(outage in gap.text for outage in OUTAGES.values()):
        return gap
    kinds = {each.kind for each in others if gap.start_ms <= each.start_ms < (gap.end_ms or 0)}
    why = next((STARTS[kind] for kind in STARTS if kind in kinds), NOTHING_TELLS)
    return replace(gap, text=f"{gap.text}; {why}")


def with_kinds(newest: Iterable[HealthEvent]) -> list[tuple[HealthEvent, str]]:
    """Events of a node, the newest first, each with what it is shown as: an agent says whenever it
    starts that the driver answers, and only after it did not is that an answer.
    """
    kinds = []
    is_silent = False
    for event in reversed(list(newest)):
        is_opened = event.kind == "driver_ok" and not is_silent
        kinds.append((event, "driver_opened" if is_opened else event.kind))
        if event.kind in OF_THE_DRIVER:
            is_silent = event.kind in NO_ANSWER
    return kinds[::-1]


def _of_event(event: HealthEvent, kind: str) -> Happening:
    return Happening(kind, event.at_ms, None, text=event.text if kind == event.kind else "")


def _observed(whole: Mapping[int, int], lost: Lost) -> float | None:
    total_ms = sum(whole.values())
    lost_ms = sum(sum(reasons.values()) for reasons in lost.values())
    return 1 - lost_ms / total_ms if total_ms else None


def _hours(node: Node, since: datetime) -> tuple[dict[int, int], Lost]:
    """GPU time by hour: all, and what was not observed, by reason."""
    whole: dict[int, int] = defaultdict(int)
    lost: dict[int, dict[str, int]] = defaultdict(dict)
    rows = Entry.objects.filter(node=node, start__gte=since).values_list("start", "state", "reason")
    for start, state, reason, gpu_ms in rows.annotate(Sum("gpu_ms")):
        hour_ms = to_ms(floor_hour(start))
        whole[hour_ms] += gpu_ms
        if state == "unobserved":
            lost[hour_ms][reason] = lost[hour_ms].get(reason, 0) + gpu_ms
    return whole, lost


def gaps(lost: Lost) -> list[Happening]:
    """Hours in a row with time that was not observed are one. Pure."""
    several: list[list[int]] = []
    for hour_ms in sorted(lost):
        if several and several[-1][-1] == hour_ms - HOUR_MS:
            several[-1].append(hour_ms)
        else:
            several.append([hour_ms])
    return [_gap(hours, [lost[hour_ms] for hour_ms in hours]) for hours in several]


def _gap(hours: Sequence[int], lost: Iterable[Mapping[str, int]]) -> Happening:
    sums: dict[str, int] = defaultdict(int)
    for reasons in lost:
        for reason, gpu_ms in reasons.items():
            sums[reason] += gpu_ms
    words = [REASONS.get(reason, reason) for reason in sorted(sums, key=lambda name: -sums[name])]
    return Happening(
        "gap", hours[0], hours[-1] + HOUR_MS, lost_ms=sum(sums.values()), text=", ".join(words)
    )


def of_boot(boot: Boot) -> Happening:
    """When the machine started, by the hub's clock."""
    off_ms = boot.clock_offset_ms
    text = f"its clock was {abs(off_ms) / 1000:g} s off, corrected" if off_ms else ""
    return Happening("boot", boot.start_ms + off_ms, None, text=text)


def _bars(since_ms: int, whole: Mapping[int, int], lost: Lost, hours: float) -> list[HourBar]:
    """Of each hour with time of the node; of the one that goes on as far as it is over."""
    bars = []
    for place in range(HOURS):
        hour_ms = since_ms + place * HOUR_MS
        if not whole.get(hour_ms):
            continue
        share = sum(lost.get(hour_ms, {}).values()) / whole[hour_ms]
        high = max(LEAST, round(UNITS * share, 1)) if share else 0
        width = round(min(WIDTH, hours - place), 2)
        bars.append(HourBar(place, width, UNITS - high, high))
    return bars
