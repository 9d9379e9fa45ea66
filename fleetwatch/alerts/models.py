"""Rules, the incidents they opened, who was told of them, and what is not to be told."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from fleetwatch.alerts.incidents.muting import is_acceptance, was_agreed
from fleetwatch.alerts.stopped_words import GAP, QUIET, STOPPED
from fleetwatch.lib.intervals import MINUTE_MS, from_ms, to_ms
from fleetwatch.lib.model_fields import text
from fleetwatch.operations.models import BackgroundWork

USER = settings.AUTH_USER_MODEL
RAISED_LATE_MS = 120_000  # after it fired: posting and the rules take a minute each


class Severity(models.TextChoices):
    """How urgent an incident is, as Prometheus and PagerDuty have it."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class LivingRules(models.Manager["Rule"]):
    """The rules that nobody removed; incidents know theirs all the same."""

    def get_queryset(self) -> models.QuerySet["Rule"]:
        return super().get_queryset().filter(removed_at=None)


class Rule(models.Model):
    """What to watch for and whom to tell. `condition` names one of conditions.CONDITIONS, each of
    which has one rule that is shipped with it and can't be removed.
    """

    name = models.CharField(max_length=100)
    condition = models.CharField(max_length=32)
    is_shipped = models.BooleanField(default=False)
    is_enabled = models.BooleanField(default=True)
    threshold = models.FloatField(help_text="in the condition's unit")
    clear = models.FloatField(null=True, help_text="over at this value; None: below the threshold")
    minutes = models.FloatField(help_text="how long it must be so")
    min_coverage = models.FloatField(default=0.5, help_text="share of that time that was seen")
    grace_minutes = models.FloatField(default=0, help_text="of a subject's start, not judged")
    clear_minutes = models.FloatField(default=0, help_text="how long it must be over")
    severity = models.CharField(max_length=16, choices=Severity.choices, default=Severity.WARNING)
    matchers = models.JSONField(
        default=list, blank=True, help_text="matchers.py: whom it watches; none: everything"
    )
    schedule = models.JSONField(
        default=dict, blank=True, help_text="weekly_hours.py: when it tells; empty: always"
    )
    tells_owner = models.BooleanField(default=True)
    remind_minutes = models.PositiveIntegerField(default=24 * 60, help_text="0: never again")
    escalate_minutes = models.PositiveIntegerField(
        default=4 * 60, help_text="unacknowledged for so long: the next step; 0: never"
    )
    channels = models.ManyToManyField(
        "notify.Channel", blank=True, related_name="rules", help_text="told of all of its incidents"
    )
    created_at = models.DateTimeField()
    evaluated_ms = models.BigIntegerField(
        null=True, help_text="up to when; None: not since it was switched on"
    )
    begun_ms = models.BigIntegerField(
        null=True, help_text="when it was evaluated first since; None: not kept then"
    )
    failing_since = models.DateTimeField(
        null=True, help_text="it could not be evaluated since; None: it was"
    )
    failure = text(300, "why, in one line")
    removed_at = models.DateTimeField(null=True, help_text="kept for what it opened")

    objects = LivingRules()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(removed_at=None), name="one_rule_of_a_name"
            ),
            models.UniqueConstraint(
                fields=["condition"], condition=Q(is_shipped=True), name="one_shipped_rule_each"
            ),
            models.CheckConstraint(
                condition=Q(min_coverage__gt=0, min_coverage__lte=1), name="coverage_is_a_share"
            ),
        ]


class IncidentGroup(models.Model):
    """Incidents of one rule that one message tells of: of one owner on one node."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="groups")
    key = models.CharField(max_length=640, help_text="grouping.py")
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    step = models.PositiveSmallIntegerField(default=0, help_text="routing.Step, told last")
    stepped_at = models.DateTimeField(null=True, help_text="when that was; None: nobody was told")
    reminded_at = models.DateTimeField(null=True)
    messages = models.PositiveIntegerField(default=0, help_text="how often something was told")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "key"], condition=Q(closed_at=None), name="one_open_group_per_key"
            )
        ]


class Incident(models.Model):
    """One breach of one rule by one subject: opened once, kept up to date, over by itself.

    Who resolves it by hand hears no more of it; it is over (`ended_ms`) when its breach is.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        FIRING = "firing"
        ACKNOWLEDGED = "acknowledged"
        RESOLVED = "resolved"

    class Verdict(models.TextChoices):
        """What people said of it afterwards."""

        CONFIRMED = "confirmed"
        REJECTED = "rejected"

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="incidents")
    group = models.ForeignKey(
        IncidentGroup, on_delete=models.SET_NULL, null=True, related_name="incidents"
    )
    subject = models.CharField(max_length=410, help_text="by its page: a job's key")
    state = models.CharField(max_length=16, choices=State.choices, default=State.FIRING)
    since_ms = models.BigIntegerField()
    fired_ms = models.BigIntegerField(null=True, help_text="in event time; None: pending")
    until_ms = models.BigIntegerField(help_text="where the breach was seen last")
    ended_ms = models.BigIntegerField(null=True, help_text="when the breach was over")
    opened_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.ForeignKey(
        USER, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(
        USER,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="by hand; None: it was over by itself",
    )
    snoozed_until = models.DateTimeField(null=True)
    is_late = models.BooleanField(
        default=False, help_text="over 15 min old when it arrived: recorded, never told"
    )
    person = models.ForeignKey(
        USER,
        on_delete=models.SET_NULL,
        null=True,
        related_name="incidents",
        help_text="whose it is",
    )
    assignee = models.ForeignKey(
        USER, on_delete=models.SET_NULL, null=True, related_name="assigned_incidents"
    )
    team = models.ForeignKey("accounts.Team", on_delete=models.SET_NULL, null=True)
    resolution = text(200, "why it was resolved; names are left open (open_names.py)")
    note = text(200, "what keeps us from knowing: no data since ...")
    muted = text(200, "why nobody is told; empty: people are")
    verdict = models.CharField(max_length=16, choices=Verdict.choices, blank=True, default="")
    facts = models.JSONField(default=dict, help_text="breach.Breach: what was true at updated_at")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=Q(ended_ms=None),
                name="one_open_incident_per_subject",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", fired_ms=None) | ~Q(state="pending"),
                name="what_is_pending_has_not_fired",
            ),
        ]
        indexes = [
            # read by: the inbox and pages, newest first
            models.Index(fields=["-opened_at"], name="incident_latest"),
            # read by: evaluation and the inbox
            models.Index(fields=["state"], condition=~Q(state="resolved"), name="incident_open"),
            # read by: whoever looks at a person's incidents
            models.Index(fields=["person", "-opened_at"], name="incident_by_person"),
        ]

    @property
    def raised_ms(self) -> int | None:
        """When it fired, but not before it was opened: what was judged late, or by a rule or budget
        that is newer than its data, was told then. None: pending.
        """
        return None if self.fired_ms is None else max(self.fired_ms, to_ms(self.opened_at))

    @property
    def fires_at(self) -> datetime | None:
        """When one that is pending fires, where it goes on and nothing of it is missing; None of
        one that fired.
        """
        if self.fired_ms is not None:
            return None
        return from_ms(self.since_ms + int(self.rule.minutes * MINUTE_MS))

    @property
    def counted_ms(self) -> int:
        """How much of its time is counted, which may be behind."""
        return self.until_ms - self.since_ms

    @property
    def severity(self) -> str:
        """Its rule's; of a budget that is passed critical."""
        own = self.of_condition
        if "spent_usd" not in own or "budget_usd" not in own:
            return self.rule.severity
        is_over = Decimal(own["spent_usd"]) > Decimal(own["budget_usd"])
        return Severity.CRITICAL if is_over else self.rule.severity

    @property
    def verdict_in_words(self) -> str:
        """As pages call it: what was rejected by the name of the decision; "" of none."""
        if self.is_accepted or self.verdict == self.Verdict.REJECTED:
            return "Agreed as not waste"
        return self.Verdict(self.verdict).label if self.verdict else ""

    @property
    def is_accepted(self) -> bool:
        """Whether somebody said why it is no waste, and that holds; or did so once it was over."""
        if self.resolved_at is None:
            return is_acceptance(self.muted)
        return self.verdict == self.Verdict.REJECTED or was_agreed(self.muted)

    @property
    def agreement(self) -> str:
        """Until when and why it is no waste, where that is kept with it; "" else: it may have been
        snoozed instead, and be over since.
        """
        return self.muted if was_agreed(self.muted) else ""

    def stands(self, now: datetime) -> str:
        """How it is called now, by a key of the inbox's tabs: what is over before all else, then
        what is no waste, then what is snoozed.
        """
        if self.state == self.State.RESOLVED:
            return "resolved"
        if self.is_accepted:
            return "accepted"
        if self.snoozed_until is not None and self.snoozed_until > now:
            return "snoozed"
        return self.state

    @property
    def has_stopped(self) -> bool:
        """Whether it was seen not to be so any more, for shorter than its rule asks."""
        return self.note.startswith(STOPPED)

    @property
    def rests(self) -> bool:
        """Whether it stopped, or is not judged behind a gap in its data: it is not over yet."""
        return self.has_stopped or self.note.startswith(GAP)

    @property
    def is_quiet_again(self) -> bool:
        """Whether what it is about rests since."""
        return self.rests and (QUIET in self.note or not self.has_stopped)

    @property
    def stopped_before_raised(self) -> bool:
        """Whether it stopped, and had by the time it was raised: nobody hears of it meanwhile."""
        return self.has_stopped and self.until_ms <= (self.raised_ms or 0)

    @property
    def is_noted_afterwards(self) -> bool:
        """Whether it was over by the time it was raised."""
        raised_ms = self.raised_ms
        return None not in (raised_ms, self.ended_ms) and (raised_ms or 0) > (self.ended_ms or 0)

    @property
    def is_raised_late(self) -> bool:
        """Whether it was raised long after the moment at which it fired."""
        if self.fired_ms is None:
            return False
        return to_ms(self.opened_at) - self.fired_ms >= RAISED_LATE_MS

    @property
    def was_so_at_first_look(self) -> bool:
        """Whether its limit was reached before its rule was evaluated first since it is on."""
        return self.is_raised_late and to_ms(self.opened_at) == self.rule.begun_ms

    @property
    def fired_or_since_ms(self) -> int:
        """When it fired; of one that is pending when the breach began."""
        return self.since_ms if self.fired_ms is None else self.fired_ms

    @property
    def limit_ms(self) -> int:
        """When its limit was reached, counted from when it began as its page says: of what judges
        late its rule may have seen less when it fired.
        """
        earlier_ms = self.since_ms - int(self.facts.get("since_ms", self.since_ms))
        return self.fired_or_since_ms - max(0, earlier_ms)

    @property
    def of_condition(self) -> dict[str, Any]:
        """What only the rule's condition knows of it."""
        own: dict[str, Any] = self.facts.get("facts", {})
        return own


class IncidentEvent(models.Model):
    """One line of an incident's history: what happened, or who did what, and to whom."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=32)
    text = text(400, "in words; names are left open (open_names.py)")
    by = models.ForeignKey(USER, on_delete=models.SET_NULL, null=True, related_name="+")
    person = models.ForeignKey(
        USER,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="who was told, or whom it was given to",
    )


class Notification(models.Model):
    """One person or channel told of a group at one step, and why it is they; or who would have
    been, had it not been night or too much for a day.
    """

    class State(models.TextChoices):
        SENT = "sent"
        HELD = "held", "held until quiet hours end"
        CAPPED = "capped", "held until the next morning"
        DIGESTED = "digested", "told with others in one message"
        DROPPED = "dropped", "over before it was due"

    group = models.ForeignKey(IncidentGroup, on_delete=models.CASCADE, related_name="notifications")
    step = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=16, help_text="opened, step, changed, reminder, resolved")
    person = models.ForeignKey(USER, on_delete=models.CASCADE, null=True, related_name="+")
    channel = models.ForeignKey("notify.Channel", on_delete=models.CASCADE, related_name="+")
    address = text(320, "as in notify.Delivery")
    why = text(200, "why it went there")
    shown = models.JSONField(default=list, help_text="the ids of the incidents that it told of")
    used_links = models.JSONField(
        default=list, help_text="actions that were done by its links: mail_links.py"
    )
    digest = text(64, "of all that it said")
    state = models.CharField(max_length=16, choices=State.choices, default=State.SENT)
    due_at = models.DateTimeField()
    created_at = models.DateTimeField()

    class Meta:
        indexes = [
            # read by: what is sent when quiet hours end, and the next morning
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["held", "capped"]),
                name="notification_due",
            ),
            # read by: how many a person had today
            models.Index(fields=["person", "created_at"], name="notification_by_person"),
        ]


class Silence(models.Model):
    """What is not told, or (exempt, justified) not even counted as an incident, from when to when:
    always with an end.
    """

    class Kind(models.TextChoices):
        SILENCE = "silence"
        MAINTENANCE = "maintenance", "maintenance window"
        EXEMPTION = "exemption"
        JUSTIFICATION = "justification", "accepted reason"

    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.SILENCE)
    matchers = models.JSONField(help_text="matchers.py: all of them hold")
    is_of_teams_alone = models.BooleanField(
        default=False, help_text="a lead's: not of what another team than the named has a part in"
    )
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    weekly = models.JSONField(
        default=dict,
        blank=True,
        help_text="weekly_hours.py: only then; empty: always",
    )
    reason = text(300, "why")
    by = models.ForeignKey(USER, on_delete=models.SET_NULL, null=True, related_name="+")
    approved_by = models.ForeignKey(USER, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="a_silence_has_an_end"
            )
        ]

    @property
    def kind_in_words(self) -> str:
        """As pages call it; what somebody said is no waste by the name of the decision."""
        if self.kind in (self.Kind.EXEMPTION, self.Kind.JUSTIFICATION):
            return "agreed as not waste"
        return self.Kind(self.kind).label


class Route(models.Model):
    """Where a team's incidents go, those that nobody acknowledges, and those that nobody owns."""

    class Kind(models.TextChoices):
        TEAM = "team"
        OPERATORS = "operators"
        UNOWNED = "unowned"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    team = models.OneToOneField("accounts.Team", on_delete=models.CASCADE, null=True)
    channels = models.ManyToManyField("notify.Channel", blank=True, related_name="routes")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind"], condition=~Q(kind="team"), name="one_route_of_a_kind"
            ),
            models.CheckConstraint(
                condition=Q(kind="team", team__isnull=False) | (~Q(kind="team") & Q(team=None)),
                name="a_teams_route_has_a_team",
            ),
        ]


class Preference(models.Model):
    """How a person wants to hear of things; who set nothing has the defaults."""

    class Way(models.TextChoices):
        ANY = "any", "Slack, else e-mail"
        SLACK = "slack", "Slack"
        EMAIL = "email", "e-mail"
        NONE = "none", "not at all"

    user = models.OneToOneField(USER, on_delete=models.CASCADE, related_name="alert_preference")
    way = models.CharField(max_length=16, choices=Way.choices, default=Way.ANY)
    time_zone = models.CharField(
        max_length=64, blank=True, default="", help_text="empty: the organisation's"
    )
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    daily_cap = models.PositiveSmallIntegerField(default=10)
    gets_digest = models.BooleanField(default=True)


class BackTestRun(BackgroundWork):
    """A rule, or a policy of actions, tried on history in the background (back_test_runs.py)."""

    class Kind(models.TextChoices):
        RULE = "rule"
        POLICY = "policy"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    asked = models.JSONField(help_text="what is tried, and over how many days")
    digest = models.CharField(max_length=64, help_text="of what is asked")
    address = models.TextField(help_text="the page that shows it")
    start = models.DateTimeField()
    end = models.DateTimeField()
    steps_all = models.PositiveSmallIntegerField()
    steps_done = models.PositiveSmallIntegerField(default=0)
    result = models.JSONField(
        default=dict, help_text="as its kind keeps it; empty until it is done"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["digest"],
                condition=Q(state="running"),
                name="one_running_back_test_of_what_is_asked",
            )
        ]
