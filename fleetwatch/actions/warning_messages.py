"""What people are told of actions: the owner before and after, operators after. Pure."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fleetwatch.alerts.breach import Breach, named
from fleetwatch.notify import wording
from fleetwatch.notify.message import Button, Message, one_line

MAX_NAME = 80
SAVE = "What is not saved by then is lost."
HOW = "Nothing is done if you keep it, end it yourself, or if one of its GPUs works again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Threat:
    """What is about to be done: `verb` as in "will be ended", `earliest` not before when."""

    verb: str
    rule_name: str
    earliest: datetime
    keep_url: str
    incident_url: str
    zone: ZoneInfo
    now: datetime

    @property
    def when(self) -> str:
        """The earliest moment, as the person reads it."""
        return wording.moment(self.earliest, self.zone, now=self.now)

    @property
    def buttons(self) -> tuple[Button, ...]:
        """What the person can do."""
        return (
            Button("Keep it", "keep", self.keep_url, "primary"),
            Button("Open in FleetWatch", "open", self.incident_url),
        )


def warning(breach: Breach, threat: Threat, *, is_second: bool) -> Message:
    """That the job will be ended, not before when, and how to keep it."""
    when = threat.when
    job = named(breach.subject, breach.name)
    last = "last warning · " if is_second else ""
    return Message(
        title=f"{last}idle job {threat.verb} from {when} on · {breach.where}",
        summary=f"Job {job} {threat.verb}, not before {when}: {breach.what}.",
        fields=(
            ("Job", job),
            ("Idle for", wording.duration(breach.until_ms - breach.since_ms)),
            ("Burning", f"{wording.usd(breach.usd_per_hour)}/h"),
            ("Not before", when),
            ("Rule", one_line(threat.rule_name, MAX_NAME)),
        ),
        url=threat.incident_url,
        severity="critical" if is_second else "warning",
        text=f"{HOW} {SAVE}",
        buttons=threat.buttons,
        is_reply=is_second,
        since_ms=breach.since_ms,
    )


def outcome(breach: Breach, text: str, *, title: str, incident_url: str) -> Message:
    """What came of it, below the warnings."""
    job = named(breach.subject, breach.name)
    return Message(
        title=f"{title} · {breach.where}",
        summary=f"Job {job}: {one_line(text, 300)}.",
        fields=(
            ("Owner", one_line(breach.owner, MAX_NAME) or "nobody known"),
            ("Job", job),
            ("It cost", f"{wording.usd(breach.usd_per_hour)}/h"),
        ),
        url=incident_url,
        severity="info",
        is_reply=True,
    )


def request(breach: Breach, *, rule_name: str, incident_url: str) -> Message:
    """What a webhook that ends jobs is told: the job by its labels."""
    labels = {name: breach.label(name) for name in sorted(breach.labels) if breach.label(name)}
    gpus = ", ".join(gpu["uuid"] for gpu in breach.facts.get("gpus", ()))
    return Message(
        title=f"end job {named(breach.subject, breach.name)}",
        summary=f"{breach.what}; its owner was warned twice.",
        fields=(
            ("Action", "stop_job"),
            ("Job id", one_line(str(breach.facts.get("external_id", "")))),
            ("GPUs", one_line(gpus, 2000)),
            ("Rule", one_line(rule_name, MAX_NAME)),
        ),
        url=incident_url,
        severity="critical",
        labels=tuple((one_line(name, 100), one_line(value)) for name, value in labels.items()),
        since_ms=breach.since_ms,
    )
