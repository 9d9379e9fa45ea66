"""What a message says to do first: what the page of its incident says, by the finding's numbers."""

from dataclasses import replace
from datetime import datetime

from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.measuring.cause_words import what_to_do
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
    return replace(breach, actions=what_to_do(explained(finding, meanwhile, now=now).advice))
