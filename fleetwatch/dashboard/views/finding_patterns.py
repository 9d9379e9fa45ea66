"""What is done to several findings at once, or to all findings of patterns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from fleetwatch.alerts.messaging.telling_owners import MAX_STEPS, WorthTelling, tell_owner
from fleetwatch.dashboard.asked_findings import STATUSES, asked_findings
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.forms.asked import Asked, local_path, read_form, ticked
from fleetwatch.dashboard.pattern_rows import PATTERN
from fleetwatch.dashboard.period import read_period
from fleetwatch.diagnosis.findings import deciding, inbox, patterns
from fleetwatch.diagnosis.findings.deciding import Decision
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
    status = chosen(request, "status", STATUSES, default="open")
    of_jobs = (shown if status == "all" else shown.of_status(status)).of_jobs
    return patterns.patterns(of_jobs, period.so_far, now=period.now)


def _places(every: Patterns, ids: Iterable[int]) -> list[int]:
    """Where the patterns are that have these findings, each once."""
    held = (every.holding(pk) for pk in ids)
    return list(dict.fromkeys(place for place in held if place is not None))


def _decide_all(request: HttpRequest, ids: Sequence[int], action: str, asked: Asked) -> None:
    """One decision about each, as far as the reader may; how many it was, and why not the rest."""
    refused: Counter[str] = Counter()
    done = sum(_is_decided(pk, action, asked, refused) for pk in ids[:MAX_DECIDED])
    if done:
        findings = "finding" if done == 1 else "findings"
        messages.success(request, f"{done} {findings} {BULK[action]}.")
    for why, count in refused.items():
        messages.error(request, f"{count} not done: {why}.")
    if len(ids) > MAX_DECIDED:
        left = len(ids) - MAX_DECIDED
        messages.error(request, f"{left} are left: {MAX_DECIDED} are decided at once. Do it again.")
    if not ids:
        messages.error(request, NOTHING)


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
    [advice] = advice_of([pattern.latest])
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
