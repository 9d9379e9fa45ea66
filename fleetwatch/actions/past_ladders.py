"""A policy tried on history: what it would have done, had nobody answered. It takes the rule's own
back-test, and writes nothing.

Nobody could be warned in history: who would have answered is not known, nor are quiet hours asked.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Any

import msgspec

from fleetwatch.actions.cases import limits_of
from fleetwatch.actions.decision import UNPRICED, Limits, first_of
from fleetwatch.actions.kind import Subject
from fleetwatch.actions.kinds import kind_of
from fleetwatch.actions.models import Policy
from fleetwatch.alerts import weekly_hours
from fleetwatch.alerts.back_test import Trial, described
from fleetwatch.alerts.back_test_runs import Asked, OnStep, StoppedError
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.incidents.dismissed_findings import dismissals
from fleetwatch.alerts.incidents.muted_incidents import read_mutes, with_rule
from fleetwatch.alerts.incidents.muting import Mute
from fleetwatch.alerts.matchers import Labels, stored
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.alerts.services import settings_of
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, from_ms, ms_in

ENDED_BEFORE = "it was over before the second wait was"
MUTED = "it was silenced, or its rule told nobody then"
LIMITED = "the policy's limits were reached as long as it lasted"
DONE_BEFORE = "it would have been done already, about what broke before"
STEPS = 3  # measured, described, what each was about
PIECE_MS = 5 * MINUTE_MS  # in such steps it is looked whether something mutes it


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the past beside the incidents: what was silenced, and when the rule tells
    (None: always).
    """

    rule: Rule
    mutes: tuple[Mute, ...] = ()
    schedule: Hours | None = None


@dataclass(frozen=True, slots=True)
class PastLadder:
    """What would have been done at that moment, and the time of the GPUs that rested, or could not
    work, from there until the incident was over: `gpu_ms`, and its dollars.
    """

    trial: Trial
    subject: Subject
    ended_ms: int
    gpu_ms: int
    usd: Decimal


Tried = tuple[Trial, Subject]
Due = tuple[int, int, Tried]  # when, and its number among those of one moment


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """What the policy would have done, the newest first; `others`: why not to the others, and of
    how many that is so.
    """

    interval: Interval
    ladders: tuple[PastLadder, ...]
    others: tuple[tuple[str, int], ...]

    @property
    def gpu_ms(self) -> int:
        """Of GPUs that rested, or could not work, from then on."""
        return sum(each.gpu_ms for each in self.ladders)

    @property
    def usd(self) -> Decimal:
        """Its dollars."""
        return sum((each.usd for each in self.ladders), Decimal(0))


def asked_of(policy: Policy, *, days: int, address: str) -> Asked:
    """The policy as it is set now, as a worker is asked for it; its outcome follows from these."""
    rule = policy.rule
    what = {
        "policy": policy.pk,
        "limits": msgspec.to_builtins(limits_of(policy)),
        "settings": msgspec.to_builtins(settings_of(rule)),
        "rule": [rule.matchers, rule.schedule],
        "for": [sorted(team.pk for team in policy.teams.all()), policy.job_kinds],
    }
    return Asked(
        kind=BackTestRun.Kind.POLICY,
        what=what,
        days=days,
        steps=STEPS,
        name=f"{rule.name}: {policy.get_kind_display()}",
        address=address,
    )


def try_out(asked: Mapping[str, Any], interval: Interval, on_step: OnStep) -> dict[str, Any]:
    """What is kept of it, by the worker. Raises StoppedError where the policy is gone, or set
    otherwise than it was asked for.
    """
    policy = Policy.objects.select_related("rule").filter(pk=asked["policy"]).first()
    if policy is None or asked_of(policy, days=asked["days"], address="").as_json != asked:
        raise StoppedError
    kept: dict[str, Any] = msgspec.to_builtins(try_on_history(policy, interval, on_step=on_step))
    return kept


def outcome_of(run: BackTestRun) -> PolicyTrial:
    """What came of a run that is done."""
    return msgspec.convert(run.result, PolicyTrial)


def _nothing() -> None:
    """What is called after each step where nobody looks."""


def try_on_history(
    policy: Policy, interval: Interval, *, on_step: OnStep = _nothing
) -> PolicyTrial:
    """What the policy would have done in the period, as it and its rule are set now, by the
    silences of then and findings that stand closed, in STEPS steps.

    Raises RefusedFieldError where no history is kept.
    """
    rule = policy.rule
    limits = limits_of(policy)
    trials, short = described(
        condition(rule.condition),
        settings_of(rule),
        stored(rule.matchers),
        interval,
        partial(_is_lasting, waits_ms=ms_in(limits.first_wait + limits.second_wait)),
        on_step=on_step,
    )
    on_step()
    past = _past_of(rule, trials, interval)
    subjects = kind_of(rule.condition).read_past(policy, trials)
    on_step()
    ladders, others = _replayed(list(zip(trials, subjects, strict=True)), limits, past)
    others[ENDED_BEFORE] = short
    return PolicyTrial(interval, tuple(ladders), tuple((+others).most_common()))


def _past_of(rule: Rule, trials: Iterable[Trial], interval: Interval) -> Past:
    """The rule as it is set, what was silenced in the interval, and which findings of the trials'
    jobs stand closed.
    """
    closed = dismissals({trial.episode.subject for trial in trials})
    return Past(
        rule=rule,
        mutes=(*read_mutes(interval.start, interval.end), *closed),
        schedule=weekly_hours.stored(rule.schedule),
    )


def _is_lasting(episode: Episode, waits_ms: int) -> bool:
    """Whether it lasted beyond both waits: of a month's thousands these alone are described."""
    return episode.fired_or_since_ms + waits_ms < episode.until_ms


def _replayed(
    trials: Iterable[Tried], limits: Limits, past: Past
) -> tuple[list[PastLadder], Counter[str]]:
    """What would have been done about incidents that would have lasted, the newest first, and why
    not about the others.
    """
    others: Counter[str] = Counter()
    waiting: list[Due] = []
    # as the live ladder takes them: of several that are due at one moment the oldest first
    for number, tried in enumerate(
        sorted(trials, key=lambda each: each[0].episode.fired_or_since_ms)
    ):
        never = _never(tried[1])
        due_ms = None if never else _due_ms(tried[0], limits, past)
        if due_ms is None:
            others[never or MUTED] += 1
        else:
            waiting.append((due_ms, number, tried))
    ladders = _within_limits(waiting, limits, others)
    ladders.reverse()
    return ladders, others


def _within_limits(waiting: list[Due], limits: Limits, others: Counter[str]) -> list[PastLadder]:
    """Those that were done, in their order: what is beyond a limit is due again when the first of
    the hour before no longer counts. Why one never was is counted.
    """
    due = list(waiting)
    heapify(due)
    ladders: list[PastLadder] = []
    until_ms: dict[str, int] = {}  # what it was done to -> when what was wrong was over
    while due:
        now_ms, number, tried = heappop(due)
        trial, subject = tried
        free_ms = _free_ms(subject, ladders, limits, now_ms)
        if now_ms < until_ms.get(subject.name, now_ms):
            others[DONE_BEFORE] += 1
        elif free_ms == now_ms:
            ladders.append(_ladder(trial, subject, now_ms))
            until_ms[subject.name] = trial.episode.until_ms
        elif free_ms is not None and free_ms < trial.episode.until_ms:
            heappush(due, (free_ms, number, tried))
        else:
            others[LIMITED] += 1
    return ladders


def _free_ms(
    subject: Subject, ladders: Sequence[PastLadder], limits: Limits, now_ms: int
) -> int | None:
    """When the limits allow it, or are to be asked again: now, or when the first of the hour before
    no longer counts; None: never.
    """
    is_recent = partial(_is_after, moment_ms=now_ms - HOUR_MS)
    recent = list(takewhile(is_recent, reversed(ladders)))
    if not _is_limited(subject, recent, limits):
        return now_ms
    return recent[-1].ended_ms + HOUR_MS if recent else None


def _is_after(ladder: PastLadder, moment_ms: int) -> bool:
    return ladder.ended_ms > moment_ms


def _never(subject: Subject) -> str:
    """Why nothing is ever done about it; "" where something may be."""
    return first_of((*subject.refusals, UNPRICED if subject.usd_per_hour is None else ""))


def _due_ms(trial: Trial, limits: Limits, past: Past) -> int | None:
    """When both waits were over of what lasted beyond them; None where it was muted too long."""
    due_ms = _began_ms(trial, past, limits) + ms_in(limits.first_wait + limits.second_wait)
    return due_ms if due_ms < trial.episode.until_ms else None


def _began_ms(trial: Trial, past: Past, limits: Limits) -> int:
    """When the ladder began of which nothing was muted: what mutes it ends it, and it begins anew
    when that is over, the first wait later at the earliest.
    """
    labels = with_rule(trial.breach.labels, past.rule, trial.episode.subject)
    mutes = [mute for mute in _within(trial.episode, past) if mute.is_for(labels)]
    began_ms = rests_ms = trial.episode.fired_or_since_ms
    if not mutes and past.schedule is None:
        return began_ms
    for now_ms in range(began_ms, trial.episode.until_ms, PIECE_MS):
        if _is_muted(past.schedule, mutes, labels, from_ms(now_ms)):
            if now_ms > began_ms:
                rests_ms = now_ms + ms_in(limits.first_wait)
            began_ms = max(now_ms + PIECE_MS, rests_ms)
        elif now_ms >= began_ms + ms_in(limits.first_wait + limits.second_wait):
            break
    return began_ms


def _within(episode: Episode, past: Past) -> list[Mute]:
    """What was silenced, of whatever, while it lasted."""
    start = from_ms(episode.fired_or_since_ms)
    end = from_ms(episode.until_ms)
    return [mute for mute in past.mutes if mute.starts_at < end and mute.ends_at > start]


def _is_muted(schedule: Hours | None, mutes: Iterable[Mute], labels: Labels, now: datetime) -> bool:
    is_told = schedule is None or schedule.hold(now)
    return not is_told or any(mute.holds(labels, now) for mute in mutes)


def _ladder(trial: Trial, subject: Subject, ended_ms: int) -> PastLadder:
    left_ms = trial.episode.until_ms - ended_ms
    usd = _known(trial.breach.usd_per_hour) * left_ms / HOUR_MS
    return PastLadder(trial, subject, ended_ms, len(subject.gpu_uuids) * left_ms, usd)


def _is_limited(subject: Subject, recent: Collection[PastLadder], limits: Limits) -> bool:
    """Whether what was done within the hour before forbids it."""
    rates = [_known(each.subject.usd_per_hour) for each in recent]
    usd_per_hour = sum(rates, _known(subject.usd_per_hour))
    return len(recent) >= limits.max_per_hour or usd_per_hour > limits.max_usd_per_hour


def _known(usd_per_hour: Decimal | None) -> Decimal:
    """Dollars an hour; what has no rate is none of a policy's."""
    return usd_per_hour or Decimal(0)
