"""A policy tried on history: what it would have ended, had nobody answered. It takes the rule's own
back-test, and writes nothing.

Nobody could be warned in history: who would have answered is not known.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.actions.cases import job_of_breach, limits_of
from fleetwatch.actions.decision import Limits, Standing, first_of, refusals
from fleetwatch.actions.models import Policy
from fleetwatch.alerts import matchers
from fleetwatch.alerts.back_test import Trial, back_test
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.services import settings_of
from fleetwatch.lib.intervals import HOUR_MS, Interval

ENDED_BEFORE = "it was over before the second wait was"
LIMITED = "the policy's limits were reached"


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
    """What the policy would have done in the period, as it and its rule are set now.

    Raises RefusedFieldError where no history is kept.
    """
    rule = policy.rule
    scope = matchers.stored(rule.matchers)
    tested = back_test(condition(rule.condition), settings_of(rule), scope, interval)
    trials = list(tested.trials)
    ladders, others = replayed(trials, limits_of(policy), accounts=_accounts(trials))
    return PolicyTrial(interval, tuple(ladders), tuple(others.most_common()))


def replayed(
    trials: Iterable[Trial], limits: Limits, *, accounts: set[Holder]
) -> tuple[list[PastLadder], Counter[str]]:
    """What would have been done about incidents that would have been, the newest first, and why
    not about the others; `accounts`: the holders who have an account.
    """
    others: Counter[str] = Counter()
    ladders: list[PastLadder] = []
    for trial in sorted(trials, key=lambda each: each.episode.fired_ms or 0):
        why = _why_not(trial, limits, is_reached=holder(trial.breach) in accounts)
        ladder = _ladder(trial, limits)
        why = why or ("" if ladder else ENDED_BEFORE)
        if ladder and not why and _is_limited(ladder, ladders, limits):
            why = LIMITED
        if why or ladder is None:
            others[why] += 1
        else:
            ladders.append(ladder)
    ladders.sort(key=lambda each: -each.ended_ms)
    return ladders, others


def holder(breach: Breach) -> Holder:
    """Who holds the job, as its scheduler names him."""
    return Holder(breach.label("scheduler"), breach.label("cluster"), breach.label("user"))


def _accounts(trials: Iterable[Trial]) -> set[Holder]:
    holders = {holder(trial.breach) for trial in trials if trial.breach.label("user")}
    return set(people(holders))


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


def _ladder(trial: Trial, limits: Limits) -> PastLadder | None:
    """None where it was over before its end."""
    episode = trial.episode
    waits_ms = (limits.first_wait + limits.second_wait) // timedelta(milliseconds=1)
    ended_ms = (episode.fired_ms or episode.since_ms) + waits_ms
    if ended_ms >= episode.until_ms:
        return None
    left_ms = episode.until_ms - ended_ms
    gpus = len(trial.breach.facts.get("gpus", ()))
    rate = trial.breach.usd_per_hour or Decimal(0)
    return PastLadder(trial, ended_ms, gpus * left_ms, rate * left_ms / HOUR_MS)


def _is_limited(ladder: PastLadder, before: Iterable[PastLadder], limits: Limits) -> bool:
    """Whether what was done within the hour before forbids it."""
    recent = [each for each in before if each.ended_ms > ladder.ended_ms - HOUR_MS]
    rates = (each.trial.breach.usd_per_hour or Decimal(0) for each in (*recent, ladder))
    return len(recent) >= limits.max_per_hour or sum(rates) > limits.max_usd_per_hour
