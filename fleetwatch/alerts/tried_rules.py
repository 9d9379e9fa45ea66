"""A rule tried on history as plain data: what is asked of a worker, and what it keeps of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleetwatch.alerts import matchers
from fleetwatch.alerts.back_test import (
    STEPS,
    BackTest,
    Ending,
    Peak,
    Trials,
    Wait,
    Weighed,
    back_test,
)
from fleetwatch.alerts.back_test_runs import Asked, OnStep
from fleetwatch.alerts.breach import Breach, Settings, Watch, Weight
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError

Terms = tuple[Settings, Sequence[Matcher]]
WEIGHTS: dict[str, type[Breach] | type[Weight]] = {"breach": Breach, "weight": Weight}


def asked_of(rule: Rule, tried: Terms, saved: Terms | None, *, days: int, address: str) -> Asked:
    """The rule tried so, and as it is saved where that is another.

    Raises RefusedFieldError where no history is kept of what it watches.
    """
    if no_history := condition(rule.condition).no_history:
        raise RefusedFieldError(no_history)
    several = [_plain(*terms) for terms in (tried, saved) if terms is not None]
    return Asked(
        kind=BackTestRun.Kind.RULE,
        what={"condition": rule.condition, "terms": several},
        days=days,
        steps=STEPS * len(several),
        name=rule.name,
        address=address,
    )


def try_out(asked: Mapping[str, Any], interval: Interval, on_step: OnStep) -> dict[str, Any]:
    """What is kept of it, by the worker."""
    watched = condition(asked["condition"])
    outcomes = []
    for terms in asked["terms"]:
        settings = msgspec.convert(terms["settings"], Settings)
        scope = matchers.stored(terms["scope"])
        outcomes.append(_kept(back_test(watched, settings, scope, interval, on_step=on_step)))
    return {"outcomes": outcomes}


def outcomes_of(run: BackTestRun) -> tuple[BackTest, BackTest | None]:
    """What came of a run that is done: as it was tried, and as it is saved (None: the same)."""
    interval = Interval(run.start, run.end)
    tried, *saved = (_back_test(run, each, interval) for each in run.result["outcomes"])
    return tried, next(iter(saved), None)


def _plain(settings: Settings, scope: Sequence[Matcher]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins({"settings": settings, "scope": list(scope)})
    return plain


def _kept(tried: BackTest) -> dict[str, Any]:
    kept: dict[str, Any] = msgspec.to_builtins(
        {
            "watch": tried.trials.watch,
            "missing": tried.missing,
            "peak": tried.peak,
            "waits": tried.waits,
            "endings": tried.endings,
            "weighed": [
                {
                    "episode": row.episode,
                    "breach" if isinstance(row.weight, Breach) else "weight": row.weight,
                    "verdict": row.verdict,
                }
                for row in tried.trials.weighed
            ],
        }
    )
    return kept


def _back_test(run: BackTestRun, kept: Mapping[str, Any], interval: Interval) -> BackTest:
    watched = condition(run.asked["condition"])
    watch = msgspec.convert(kept["watch"], Watch)
    weighed = tuple(map(_weighed, kept["weighed"]))
    peak = msgspec.convert(kept.get("peak"), Peak | None)
    waits = msgspec.convert(kept.get("waits", ()), tuple[Wait, ...])
    endings = msgspec.convert(kept.get("endings", ()), tuple[Ending, ...])
    trials = Trials(watched, watch, weighed)
    return BackTest(interval, trials, kept["missing"], peak, waits, endings)


def _weighed(row: Mapping[str, Any]) -> Weighed:
    [name] = row.keys() & WEIGHTS.keys()
    return Weighed(
        msgspec.convert(row["episode"], Episode),
        msgspec.convert(row[name], WEIGHTS[name]),
        row["verdict"],
    )
