"""What people are told of actions: who is warned before and after, operators after. Pure."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fleetwatch.actions.kind import Kind, Subject, Words
from fleetwatch.alerts.breach import Breach
from fleetwatch.notify import wording
from fleetwatch.notify.message import Button, Message, one_line

MAX_NAME = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Threat:
    """What is about to be done to what: `earliest` not before when. `keep_url` "": only who logs in
    can keep it.
    """

    words: Words
    about: str
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
        keep = Button(self.words.keep, "keep", self.keep_url, "primary")
        look = Button("Open in FleetWatch", "open", self.incident_url)
        return (keep, look) if self.keep_url else (look,)


def warning(breach: Breach, threat: Threat, *, is_second: bool) -> Message:
    """That it will be done, not before when, and how to keep it from being done."""
    when = threat.when
    words = threat.words
    thing = words.thing.capitalize()
    last = "last warning · " if is_second else ""
    return Message(
        title=f"{last}{words.headline} {words.coming} from {when} on · {breach.where}",
        summary=f"{thing} {threat.about} {words.coming}, not before {when}: {breach.so_far}.",
        fields=(
            (thing, threat.about),
            (words.lasting, wording.duration(breach.until_ms - breach.since_ms)),
            (words.cost, f"{wording.usd(breach.usd_per_hour)}/h"),
            ("Not before", when),
            ("Rule", one_line(threat.rule_name, MAX_NAME)),
        ),
        url=threat.incident_url,
        severity="critical" if is_second else "warning",
        text=words.how,
        buttons=threat.buttons,
        is_reply=is_second,
        since_ms=breach.since_ms,
    )


def outcome(
    words: Words, about: str, breach: Breach, text: str, *, end: str, incident_url: str
) -> Message:
    """What came of it, below the warnings; `end` in a word or two."""
    thing = words.thing.capitalize()
    return Message(
        title=f"{words.headline}{end} · {breach.where}",
        summary=f"{thing} {about}: {one_line(text, 300)}.",
        fields=(
            ("Owner", one_line(breach.owner, MAX_NAME) or "nobody known"),
            (thing, about),
            ("It cost", f"{wording.usd(breach.usd_per_hour)}/h"),
        ),
        url=incident_url,
        severity="info",
        is_reply=True,
    )


def request(
    kind: Kind, subject: Subject, breach: Breach, *, rule_name: str, incident_url: str
) -> Message:
    """What a webhook that does it instead is told: what it is about by its labels."""
    labels = {name: breach.label(name) for name in sorted(breach.labels) if breach.label(name)}
    gpus = ", ".join(subject.gpu_uuids)
    return Message(
        title=f"{kind.words.request} {subject.about}",
        summary=f"{breach.so_far}; {kind.words.owner} was warned twice.",
        fields=(
            ("Action", kind.name),
            subject.identity,
            ("GPUs", one_line(gpus, 2000)),
            ("Rule", one_line(rule_name, MAX_NAME)),
        ),
        url=incident_url,
        severity="critical",
        labels=tuple((one_line(name, 100), one_line(value)) for name, value in labels.items()),
        since_ms=breach.since_ms,
    )
