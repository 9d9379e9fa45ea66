"""What a search finds of what people agreed is no waste: the tabs that have it, by the name of the
decision, and findings by the reason that somebody wrote down.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.urls import reverse

from fleetwatch.alerts.incidents.incident_inbox import in_state
from fleetwatch.alerts.incidents.muting import ACCEPTED
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.dashboard.asked_findings import of_tab
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.findings.exempt import exemptions
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.lib.intervals import Interval

AGREED = "agreed as not waste"
PHRASES = (AGREED, "not waste", "dismissed", "exempt")
SHORTEST = 4  # letters of one of these: "not" alone asks for something else
LATELY_DAYS = 30
KINDS = (Silence.Kind.EXEMPTION, Silence.Kind.JUSTIFICATION)


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of what is agreed: its name, its address, and how much is in it."""

    name: str
    address: str
    about: str


def is_asked_for(text: str) -> bool:
    """Whether the text is how one of the names of the decision begins."""
    asked = text.lower()
    return len(asked) >= SHORTEST and any(each.startswith(asked) for each in PHRASES)


def tabs(now: datetime) -> list[Tab]:
    """Those of findings and of incidents, as far as the reader sees what is in them."""
    findings = _agreed_lately(now).counts()
    agreed = incidents(now)
    over = agreed.filter(state=Incident.State.RESOLVED).count()
    return [
        Tab(
            "Findings agreed as not waste",
            f"{reverse('findings')}?status=dismissed&range={LATELY_DAYS}d",
            f"{_counted(sum(findings.values()), 'finding')} of the last {LATELY_DAYS} days",
        ),
        Tab(
            "Incidents agreed as not waste",
            f"{reverse('alerts')}?state=accepted",
            f"{_counted(agreed.count(), 'incident')}, {over} of them over",
        ),
    ]


def finding_ids(now: datetime) -> list[int]:
    """All findings of the last days that are so marked."""
    agreed = _agreed_lately(now)
    places = [line.finding.pk for line in agreed.of_places]
    return [*agreed.of_jobs.pk.tolist(), *places]


def incidents(now: datetime) -> QuerySet[Incident]:
    """Those that are so marked, over or not, as far as the reader sees them."""
    return visible_incidents().filter(in_state("accepted", now))


def has_reason(word: str) -> Q:
    """Findings of which somebody wrote the word when they were decided about; whom one was given
    to the reader may not know by name.
    """
    notes = Said.objects.filter(note__icontains=word).exclude(kind=Said.Kind.ASSIGNED)
    return Q(pk__in=notes.values("finding"))


def was_muted_for(word: str) -> Q:
    """Incidents with the word in the reason why they are no waste, which stands behind until when
    that is said.
    """
    return Q(muted__iregex=rf"^{ACCEPTED} until .+: .*{re.escape(word)}")


def exempt_for(text: str, now: datetime) -> list[int]:
    """Open findings of the last days that are agreed on until a day for a reason with that text."""
    holding = Silence.objects.filter(kind__in=KINDS, starts_at__lte=now, ends_at__gt=now)
    if not holding.filter(reason__icontains=text).exists():
        return []
    ids = _agreed_lately(now).of_status(EXEMPT).of_jobs.pk.tolist()
    rows = Finding.objects.filter(pk__in=ids).values_list("pk", "job", "cause")
    keys = {(job, cause): pk for pk, job, cause in rows if job is not None}
    reasons = exemptions(keys, now)
    return [keys[key] for key in _with(text, ((key, reasons[key].reason) for key in reasons))]


def _with(text: str, reasons: Iterable[tuple[tuple[int, str], str]]) -> list[tuple[int, str]]:
    return [key for key, reason in reasons if text.lower() in reason.lower()]


def _agreed_lately(now: datetime) -> inbox.Inbox:
    lately = Interval(now - timedelta(days=LATELY_DAYS), now)
    return of_tab(inbox.inbox(lately, now=now), "dismissed")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
