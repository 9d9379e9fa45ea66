"""What is done to several findings at once, or to all findings of patterns."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from fleetwatch.alerts.messaging.telling_owners import MAX_STEPS, WorthTelling, tell_owner
from fleetwatch.dashboard.asked_findings import asked_findings, asked_status, of_tab
from fleetwatch.dashboard.forms.asked import Asked, local_path, read_form, ticked
from fleetwatch.dashboard.pattern_rows import PATTERN
from fleetwatch.dashboard.period import read_period
from fleetwatch.diagnosis.findings import deciding, inbox, patterns
from fleetwatch.diagnosis.findings.deciding import Decision
from fleetwatch.diagnosis.findings.exempt import exemptions
from fleetwatch.diagnosis.findings.inbox import RECOVERABLE, UNDECIDED
from fleetwatch.diagnosis.findings.noted_facts import advice_of
from fleetwatch.diagnosis.findings.patterns import Pattern, Patterns
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.refusal import RefusedFieldError

MAX_TICKED = 100
MAX_DECIDED = 500  # findings in one go
SNOOZED = timedelta(days=7)
# what can be done to several at once, as it is called once it is done
BULK = {
    "accept": "accepted",
    "snooze": "snoozed for a week",
    "fixed": "marked as fixed",
    "assign": "assigned",
    "reopen": "open again",
}
# how those findings of a pattern stand that a decision is about: what was decided of others stays
ABOUT = {
    "accept": RECOVERABLE,
    "snooze": ("open",),
    "fixed": UNDECIDED,
}
TELL = "tell"
NOTHING = "Nothing ticked is still in this list."
HELD = "agreed as not waste until a day: its page says who may end that"


@require_POST
@login_required
@never_cache
def act_on_several(request: HttpRequest) -> HttpResponse:
    """The same on all that are ticked: findings, or all findings of patterns, as the list at the
    form's address has them; what could not be done is said.
    """
    asked = read_form(request)
    action = asked.text("action")
    if action not in (*BULK, TELL):
        raise Http404(action)
    ids = ticked(request, MAX_TICKED)
    if action == TELL:
        _tell(request, _ticked_patterns(request, ids), asked)
    elif asked.text("group_by") == PATTERN:
        _decide_all(request, _their_findings(request, ids, action), action, asked)
    else:
        _decide_all(request, inbox.seen_ids(ids), action, asked)
    return redirect(local_path(request, asked.text("back")) or "findings")


def _ticked_patterns(request: HttpRequest, ids: Iterable[int]) -> list[Pattern]:
    every = _patterns(request)
    return [each for place in _places(every, ids) for each in every[place : place + 1]]


def _their_findings(request: HttpRequest, ids: Iterable[int], action: str) -> list[int]:
    """The ids of the findings of the patterns that have these, as far as it is about them."""
    every = _patterns(request)
    return [
        pk
        for place in _places(every, ids)
        for pk in every.finding_ids(place, standing=ABOUT.get(action, ()))
    ]


def _patterns(request: HttpRequest) -> Patterns:
    """Those of the list that the form stands in."""
    period = read_period(request)
    shown, _ = asked_findings(request, period)
    of_jobs = of_tab(shown, asked_status(request)).of_jobs
    return patterns.patterns(of_jobs, period.so_far, now=period.now)


def _places(every: Patterns, ids: Iterable[int]) -> list[int]:
    """Where the patterns are that have these findings, each once."""
    held = (every.holding(pk) for pk in ids)
    return list(dict.fromkeys(place for place in held if place is not None))


def _decide_all(request: HttpRequest, ids: Sequence[int], action: str, asked: Asked) -> None:
    """One decision about each, as far as the reader may; how many it was, and why not the rest."""
    refused: Counter[str] = Counter()
    wanted = _not_held(ids[:MAX_DECIDED], action, asked, refused)
    done = sum(_is_decided(pk, action, asked, refused) for pk in wanted)
    if done:
        findings = "finding" if done == 1 else "findings"
        messages.success(request, f"{done} {findings} {BULK[action]}.")
    for why in _why_not_all(refused, len(ids)):
        messages.error(request, why)


def _why_not_all(refused: Mapping[str, int], asked_for: int) -> Iterator[str]:
    for why, count in refused.items():
        yield f"{count} not done: {why}."
    if asked_for > MAX_DECIDED:
        left = asked_for - MAX_DECIDED
        yield f"{left} are left: {MAX_DECIDED} are decided at once. Do it again."
    if not asked_for:
        yield NOTHING


def _not_held(
    ids: Sequence[int], action: str, asked: Asked, refused: Counter[str]
) -> Sequence[int]:
    """The same without those that can't be opened again."""
    held = _agreed_until(ids, asked.now) if action == "reopen" else ()
    refused.update([HELD] * len(held))
    return [pk for pk in ids if pk not in held]


def _agreed_until(ids: Collection[int], now: datetime) -> set[int]:
    """Those of them that are open and agreed as not waste until a day: that ends by itself, or
    where it was said.
    """
    rows = Finding.objects.filter(pk__in=ids, status=Finding.Status.OPEN).exclude(job=None)
    keys = {pk: (job, cause) for pk, job, cause in rows.values_list("pk", "job", "cause")}
    agreed = exemptions(list(keys.values()), now) if keys else {}
    return {pk for pk, key in keys.items() if key in agreed}


def _is_decided(pk: int, action: str, asked: Asked, refused: Counter[str]) -> bool:
    try:
        deciding.decide(pk, _decision(action, asked), by=asked.user, now=asked.now)
    except (RefusedFieldError, PermissionDenied) as error:
        refused[str(error)] += 1
        return False
    except Finding.DoesNotExist:
        return False  # its hours were judged anew meanwhile
    return True


def _decision(action: str, asked: Asked) -> Decision:
    """What the form says. Raises RefusedFieldError."""
    until = asked.now + SNOOZED if action == "snooze" else None
    whom = deciding.assignee(asked.text("assignee")) if action == "assign" else None
    return Decision(action, "", until, whom)


def _tell(request: HttpRequest, several: Sequence[Pattern], asked: Asked) -> None:
    """Tells the owner of each, as far as the reader decides about it."""
    findings = [each.line.finding for each in several]
    decidable = deciding.decidable(asked.user, findings, now=asked.now)
    for each in several:
        try:
            if each.line.finding.pk not in decidable:
                raise PermissionDenied(deciding.NOT_YOURS)
            whom = tell_owner(_worth_telling(each), by=asked.user, now=asked.now)
        except (RefusedFieldError, PermissionDenied) as error:
            messages.error(request, f"{each.job_name}: {error}.")
        else:
            messages.success(request, f"{each.job_name}: sent to {whom}.")
    if not several:
        messages.error(request, NOTHING)


def _worth_telling(pattern: Pattern) -> WorthTelling:
    line = pattern.line
    job = line.job
    [advice] = advice_of([line])
    saving = pattern.caused.saving
    return WorthTelling(
        line.finding.pk,
        job,
        advice.cause.title,
        advice.sentence,
        pattern.runs,
        (saving.low_usd, saving.high_usd),
        [step.text for step in advice.steps[:MAX_STEPS]],
    )
