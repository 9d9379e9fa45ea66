"""A policy tried on history: what it would have ended, had nobody answered. It takes the rule's own
back-test, and writes nothing.

Nobody could be warned in history: who would have answered is not known, nor are quiet hours asked.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from heapq import heapify, heappop, heappush

from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.actions.cases import job_of_breach, limits_of
from fleetwatch.actions.decision import Limits, Standing, first_of, refusals
from fleetwatch.actions.models import Policy
from fleetwatch.alerts import weekly_hours
from fleetwatch.alerts.back_test import Trial, described
from fleetwatch.alerts.breach import MINUTE_MS, Breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.incidents.muted_incidents import read_mutes, with_rule
from fleetwatch.alerts.incidents.muting import Mute
from fleetwatch.alerts.matchers import Labels, matched, stored
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.services import settings_of
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms

ENDED_BEFORE = "it was over before the second wait was"
MUTED = "it was silenced, or its rule told nobody then"
LIMITED = "the policy's limits were reached as long as it lasted"
PIECE_MS = 5 * MINUTE_MS  # in such steps it is looked whether something mutes it


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the past beside the incidents: which holders have an account, what was
    silenced, and when the rule tells (None: always).
    """

    rule: Rule
    accounts: frozenset[Holder]
    mutes: tuple[Mute, ...] = ()
    schedule: Hours | None = None


@dataclass(frozen=True, slots=True)
class PastLadder:
    """One job that would have been ended at that moment, and what it held from there until its
    incident was over: `gpu_ms` of GPU time, and its dollars.
    """

    trial: Trial
    ended_ms: int
    gpu_ms: int
    usd: Decimal


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
        """GPU time that would not have been held."""
        return sum(each.gpu_ms for each in self.ladders)

    @property
    def usd(self) -> Decimal:
        """Its dollars."""
        return sum((each.usd for each in self.ladders), Decimal(0))


def try_on_history(policy: Policy, interval: Interval) -> PolicyTrial:
    """What the policy would have done in the period, as it and its rule are set now, by the
    silences of then.

    Raises RefusedFieldError where no history is kept.
    """
    rule = policy.rule
    limits = limits_of(policy)
    trials, short = described(
        condition(rule.condition),
        settings_of(rule),
        stored(rule.matchers),
        interval,
        partial(_is_lasting, limits=limits),
    )
    past = Past(
        rule=rule,
        accounts=_accounts(trials),
        mutes=tuple(read_mutes(interval.start, interval.end)),
        schedule=weekly_hours.stored(rule.schedule),
    )
    ladders, others = _replayed(trials, limits, past)
    others[ENDED_BEFORE] = short
    return PolicyTrial(interval, tuple(ladders), tuple((+others).most_common()))


def _is_lasting(episode: Episode, limits: Limits) -> bool:
    """Whether it lasted beyond both waits: of a month's thousands these alone are described."""
    return _fired_ms(episode) + _ms(limits.first_wait + limits.second_wait) < episode.until_ms


def _replayed(
    trials: Iterable[Trial], limits: Limits, past: Past
) -> tuple[list[PastLadder], Counter[str]]:
    """What would have been done about incidents that would have lasted, the newest first, and why
    not about the others.
    """
    others: Counter[str] = Counter()
    waiting: list[tuple[int, int, Trial]] = []  # by when each is due
    # as the live ladder takes them: of several that are due at one moment the oldest first
    for number, trial in enumerate(sorted(trials, key=lambda each: _fired_ms(each.episode))):
        due_ms = _due_ms(trial, limits, past)
        if isinstance(due_ms, str):
            others[due_ms] += 1
        else:
            waiting.append((due_ms, number, trial))
    ladders = _within_limits(waiting, limits)
    if len(ladders) < len(waiting):
        others[LIMITED] = len(waiting) - len(ladders)
    ladders.reverse()
    return ladders, others


def _within_limits(waiting: list[tuple[int, int, Trial]], limits: Limits) -> list[PastLadder]:
    """Those that were done, in their order: what is beyond a limit is due again when the first of
    the hour before no longer counts.
    """
    due = list(waiting)
    heapify(due)
    ladders: list[PastLadder] = []
    recent: deque[PastLadder] = deque()
    while due:
        now_ms, number, trial = heappop(due)
        while recent and recent[0].ended_ms <= now_ms - HOUR_MS:
            recent.popleft()
        if not _is_limited(trial, recent, limits):
            ladders.append(_ladder(trial, now_ms))
            recent.append(ladders[-1])
        elif recent and recent[0].ended_ms + HOUR_MS < trial.episode.until_ms:
            heappush(due, (recent[0].ended_ms + HOUR_MS, number, trial))
    return ladders


def _holder(breach: Breach) -> Holder:
    """Who holds the job, as its scheduler names him."""
    return Holder(breach.label("scheduler"), breach.label("cluster"), breach.label("user"))


def _accounts(trials: Iterable[Trial]) -> frozenset[Holder]:
    holders = {_holder(trial.breach) for trial in trials if trial.breach.label("user")}
    return frozenset(people(holders))


def _why_not(trial: Trial, limits: Limits, *, is_reached: bool) -> str:
    """Why it is none of the policy's, by what is known of it still; "" where it is."""
    breach = trial.breach
    standing = Standing(
        fires=True,
        until_ms=trial.episode.until_ms,
        muted="",
        is_acknowledged=False,
        team=breach.label("team"),
        usd_per_hour=breach.usd_per_hour,
        is_reached=is_reached,
        is_quiet=False,
        job=job_of_breach(breach),
    )
    return first_of(refusals(standing, limits))


def _due_ms(trial: Trial, limits: Limits, past: Past) -> int | str:
    """When both waits were over of what lasted beyond them, or why they never were."""
    why = _why_not(trial, limits, is_reached=_holder(trial.breach) in past.accounts)
    if why:
        return why
    due_ms = _began_ms(trial, past, limits) + _ms(limits.first_wait + limits.second_wait)
    return due_ms if due_ms < trial.episode.until_ms else MUTED


def _began_ms(trial: Trial, past: Past, limits: Limits) -> int:
    """When the ladder began of which nothing was muted: what mutes it ends it, and it begins anew
    when that is over, the first wait later at the earliest.
    """
    labels = with_rule(trial.breach.labels, past.rule, trial.episode.subject)
    mutes = [mute for mute in _within(trial.episode, past) if matched(mute.matchers, labels)]
    began_ms = rests_ms = _fired_ms(trial.episode)
    if not mutes and past.schedule is None:
        return began_ms
    for now_ms in range(began_ms, trial.episode.until_ms, PIECE_MS):
        if _is_muted(past.schedule, mutes, labels, from_ms(now_ms)):
            if now_ms > began_ms:
                rests_ms = now_ms + _ms(limits.first_wait)
            began_ms = max(now_ms + PIECE_MS, rests_ms)
        elif now_ms >= began_ms + _ms(limits.first_wait + limits.second_wait):
            break
    return began_ms


def _within(episode: Episode, past: Past) -> list[Mute]:
    """What was silenced, of whatever, while it lasted."""
    start = from_ms(_fired_ms(episode))
    end = from_ms(episode.until_ms)
    return [mute for mute in past.mutes if mute.starts_at < end and mute.ends_at > start]


def _is_muted(schedule: Hours | None, mutes: Iterable[Mute], labels: Labels, now: datetime) -> bool:
    is_told = schedule is None or schedule.hold(now)
    return not is_told or any(mute.holds(labels, now) for mute in mutes)


def _fired_ms(episode: Episode) -> int:
    return episode.since_ms if episode.fired_ms is None else episode.fired_ms


def _ms(wait: timedelta) -> int:
    return wait // timedelta(milliseconds=1)


def _ladder(trial: Trial, ended_ms: int) -> PastLadder:
    left_ms = trial.episode.until_ms - ended_ms
    gpus = len(trial.breach.facts.get("gpus", ()))
    return PastLadder(trial, ended_ms, gpus * left_ms, _rate(trial) * left_ms / HOUR_MS)


def _is_limited(trial: Trial, recent: Collection[PastLadder], limits: Limits) -> bool:
    """Whether what was done within the hour before forbids it."""
    usd_per_hour = sum((_rate(each.trial) for each in recent), _rate(trial))
    return len(recent) >= limits.max_per_hour or usd_per_hour > limits.max_usd_per_hour


def _rate(trial: Trial) -> Decimal:
    """Dollars an hour; what has no rate is none of a policy's."""
    return trial.breach.usd_per_hour or Decimal(0)
