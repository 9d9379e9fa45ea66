"""What a message says of the cause and to do first: what the page of its incident says by then, by
the finding's numbers.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import compress

from fleetwatch.alerts.breach import Breach, named
from fleetwatch.alerts.measuring.cause_words import (
    FIX,
    LIKELY,
    NO_CAUSE,
    asked_first,
    code_of,
    fix_of,
    typed,
    what_to_do,
)
from fleetwatch.alerts.measuring.likely_causes import Likely, likely_of_several
from fleetwatch.diagnosis.findings.inbox import explained
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import Interval, from_ms


def advised(breach: Breach, now: datetime) -> Breach:
    """With the steps of the job's finding of the same cause; as it is where there is none, and
    where the job is to be ended.
    """
    if breach.kind != "job" or breach.command or not breach.label("cause"):
        return breach
    named = {"job__key": breach.subject, "cause": breach.label("cause")}
    finding = Finding.objects.filter(**named).select_related("job").first()
    if finding is None:
        return breach
    meanwhile = Interval(from_ms(breach.since_ms), from_ms(breach.until_ms))
    advice = explained(finding, meanwhile, now=now).advice
    actions = what_to_do(advice)
    return replace(breach, actions=actions, codes=typed(advice), finding_id=finding.pk)


def left(breach: Breach) -> Breach:
    """Of what is over: nothing is to be ended any more."""
    if not breach.command:
        return breach
    actions = tuple(action for action in breach.actions if not action.startswith(FIX))
    return replace(breach, command="", actions=actions)


def without_asking(breach: Breach) -> Breach:
    """As its owner hears it, who is not to ask himself."""
    ask = asked_first(breach.owner, named(breach.subject, breach.name))
    return replace(breach, actions=tuple(each for each in breach.actions if each != ask))


def with_causes(breaches: Sequence[Breach], now: datetime) -> list[Breach]:
    """The same with the cause that diagnosis named since they were told; as they are where it
    named none, or they say it.
    """
    silent = [each.kind == "job" and not is_named(each) for each in breaches]
    likely = iter(likely_of_several(list(compress(breaches, silent)), now))
    return [
        _with_cause(each, next(likely)) if is_silent else each
        for each, is_silent in zip(breaches, silent, strict=True)
    ]


def is_named(breach: Breach) -> bool:
    """Whether it says what it likely is."""
    return LIKELY in dict(breach.lines)


def _with_cause(breach: Breach, likely: Likely | None) -> Breach:
    if likely is None:
        return breach
    lines = (*breach.lines, (LIKELY, f"{likely.title}: {likely.sentence}"))
    codes = (*breach.codes, *filter(None, map(code_of, likely.steps[:1])))
    actions = _actions(breach, likely)
    finding_id = likely.finding_id
    return replace(breach, lines=lines, actions=actions, codes=codes, finding_id=finding_id)


def _actions(breach: Breach, likely: Likely) -> tuple[str, ...]:
    """As the incident's page has them (incident_pages.steps)."""
    fixes = tuple(fix_of(step) for step in likely.steps[:1])
    if breach.actions == (NO_CAUSE,):
        return fixes
    if likely.finding_id is None or breach.command:
        return breach.actions
    return (*fixes, *(action for action in breach.actions if not action.startswith(FIX)))
