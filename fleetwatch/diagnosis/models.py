"""Why time was wasted: causes of the ledger's hours, findings that people act on, and what they
said of them.
"""

from functools import reduce
from operator import add

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from fleetwatch.diagnosis.cause_totals import WASTE
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import HOURS
from fleetwatch.lib.model_fields import text


class NodeCells(models.Model):
    """Five-minute figures of a node's GPUs in one clock hour (judgement/cell_figures.py), packed;
    derived from windows, kept while hours change.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    hour = models.DateTimeField()
    payload = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "hour"], name="one_row_of_cells_per_node_and_hour"
            )
        ]


class DiagnosedDay(models.Model):
    """Of which versions of a node's hours (ledger.NodeDay) the causes speak: others are due.

    And what they sum to (sums.py).
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    versions = ArrayField(models.BigIntegerField(), size=HOURS)
    is_summed = models.BooleanField(
        default=False, db_default=False, help_text="whether its spans say what its CauseEntries say"
    )
    times_summed = models.IntegerField(
        default=0, db_default=0, help_text="how often; what it was before is the same while this is"
    )
    causes = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="what numbers in spans stand for, from 1 on, with commas",
    )
    spans = models.BinaryField(
        default=b"",
        db_default=b"",
        help_text="of each GPU, job and cause, as cause_columns.py reads them",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "day"], name="one_diagnosed_row_per_node_and_day"
            )
        ]
        indexes = [
            # read by: which days of nodes sums answer, and whether they are as a process keeps them
            models.Index(
                fields=["day", "node"],
                include=["id", "times_summed"],
                condition=Q(is_summed=True),
                name="summed_by_day",
            )
        ]


class CauseEntry(models.Model):
    """GPU time of one GPU, hour cut and job whose primary cause is this one, as the ledger's
    entries tell it.

    Over all causes the columns of one GPU, cut and job sum to the ledger's entries exactly.
    """

    # keys as the ledger's entries have them, of which these are parts: without an index of each
    # alone, and only the job is checked
    node = models.ForeignKey(
        "inventory.Node",
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    gpu = models.ForeignKey(
        "inventory.GPU",
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    start = models.DateTimeField(help_text="start of the hour cut")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.CASCADE, related_name="causes", db_index=False
    )
    cause = models.CharField(max_length=32)
    confidence = models.PositiveSmallIntegerField(
        help_text="0 none, 1 low, 2 medium, 3 high: the surest of its cells"
    )
    also = ArrayField(
        models.CharField(max_length=32), default=list, help_text="what else is possible"
    )
    cells = models.PositiveSmallIntegerField(
        help_text="bit n = the n-th five minutes of the clock hour"
    )
    held_ms = models.BigIntegerField()
    idle_certain_ms = models.BigIntegerField()
    idle_probable_ms = models.BigIntegerField()
    stalled_probable_ms = models.BigIntegerField()
    stalled_potential_ms = models.BigIntegerField()
    underused_ms = models.BigIntegerField()
    low_ms = models.BigIntegerField(
        help_text="recoverable at least; never more than what is wasted"
    )
    high_ms = models.BigIntegerField(help_text="recoverable at most")
    clock_lost_ms = models.BigIntegerField(
        null=True,
        help_text=(
            "of slowed GPUs what the lower clock cost of the held time at most, whatever the ledger"
            " calls it; NULL = of another cause, or not worked out"
        ),
    )

    class Meta:
        indexes = [
            # read by: what replaces a node's hours
            models.Index(fields=["node", "start"], name="cause_by_node"),
            # read by: findings and sums by cause over a period
            models.Index(fields=["start", "cause"], name="cause_by_start"),
            # read by: job and finding pages
            models.Index(fields=["job", "cause", "start"], name="cause_by_job"),
            # read by: what refreshes findings of jobs, which begin and end with what could be won
            models.Index(
                fields=["job", "cause", "start"], condition=Q(high_ms__gt=0), name="waste_by_job"
            ),
            # read by: what refreshes findings of nodes: of the causes of jobs this one is the
            # node's
            models.Index(
                fields=["node", "start"],
                condition=Q(cause=SLOWED),
                name="throttled_by_node",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(low_ms__gte=0, low_ms__lte=F("high_ms")), name="savings_are_an_interval"
            ),
            models.CheckConstraint(
                condition=Q(clock_lost_ms__isnull=True)
                | Q(clock_lost_ms__gte=0, clock_lost_ms__lte=F("held_ms")),
                name="a_clock_costs_a_part_of_what_was_held",
            ),
        ]


# What of an entry's time was wasted, whatever its state and tier.
WASTED_MS = reduce(add, (F(f"{name}_ms") for name in WASTE))


class CapacityEntry(models.Model):
    """GPU time of one GPU and hour cut that no job's cause explains: it was broken, unseen,
    orphaned, or free while jobs waited.

    Own lines of the ledger (unavailable, unobserved, orphaned, free), never a part of idle, stalled
    and underused.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    gpu = models.ForeignKey(
        "inventory.GPU", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    cluster = models.CharField(
        max_length=128,
        blank=True,
        default="",
        help_text='whose queue waited; "" = the node is the cause',
    )
    start = models.DateTimeField(help_text="start of the hour cut; of a queue, of the clock hour")
    cause = models.CharField(max_length=32)
    gpu_ms = models.BigIntegerField()
    low_ms = models.BigIntegerField(help_text="could have been used at least")
    high_ms = models.BigIntegerField(help_text="could have been used at most")

    class Meta:
        indexes = [
            # read by: what replaces a node's hours; findings of nodes and clusters
            models.Index(fields=["node", "start"], name="capacity_by_node"),
            # read by: findings of a period
            models.Index(fields=["start", "cause"], name="capacity_by_start"),
            # read by: what refreshes findings of nodes and of clusters
            models.Index(
                fields=["node", "cause", "start"],
                condition=Q(cluster=""),
                name="capacity_by_node_cause",
            ),
            models.Index(
                fields=["cluster", "cause", "start"],
                condition=Q(high_ms__gt=0) & ~Q(cluster=""),
                name="capacity_by_cluster",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(low_ms__gte=0, low_ms__lte=F("high_ms"), high_ms__lte=F("gpu_ms")),
                name="no_more_is_used_than_there_was",
            )
        ]


class Finding(models.Model):
    """A cause as something to decide on, of one subject: a job, a node, or a cluster's queue.

    What it took is summed from CauseEntry; of nodes and clusters also from CapacityEntry.
    """

    class Status(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        SNOOZED = "snoozed"
        DISMISSED = "dismissed"
        FIXED = "fixed"

    job = models.ForeignKey(
        "jobs.Job", on_delete=models.CASCADE, related_name="findings", null=True
    )
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="findings", null=True
    )
    cluster = models.CharField(
        max_length=128, blank=True, default="", db_default="", help_text="whose queue it is about"
    )
    cause = models.CharField(max_length=32)
    first_ms = models.BigIntegerField(help_text="start of its first cell")
    last_ms = models.BigIntegerField(help_text="end of its last cell")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    snoozed_until = models.DateTimeField(null=True)
    assignee = models.ForeignKey(
        "accounts.User", on_delete=models.SET_NULL, null=True, related_name="findings"
    )
    decided_at = models.DateTimeField(
        null=True, help_text="when its status was last changed by a person"
    )
    # written by findings/noted_facts.py
    step_saved_ms = models.BigIntegerField(
        null=True,
        help_text="GPU time that its priced step alone would have saved; NULL = unknown",
    )
    step_of_ms = models.BigIntegerField(
        null=True, help_text="idle GPU time of the job over which that was measured"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "cause"], name="one_finding_per_job_and_cause"),
            models.UniqueConstraint(
                fields=["node", "cause"], name="one_finding_per_node_and_cause"
            ),
            models.UniqueConstraint(
                fields=["cluster", "cause"],
                condition=~Q(cluster=""),
                name="one_finding_per_cluster_and_cause",
            ),
            models.CheckConstraint(
                condition=Q(job__isnull=False, node__isnull=True, cluster="")
                | Q(job__isnull=True, node__isnull=False, cluster="")
                | (Q(job__isnull=True, node__isnull=True) & ~Q(cluster="")),
                name="a_finding_has_one_subject",
            ),
            models.CheckConstraint(
                condition=Q(status="snoozed", snoozed_until__isnull=False)
                | (~Q(status="snoozed") & Q(snoozed_until__isnull=True)),
                name="a_snooze_has_an_end",
            ),
            models.CheckConstraint(
                condition=Q(step_saved_ms__isnull=True, step_of_ms__isnull=True)
                | Q(step_saved_ms__gt=0, step_of_ms__gte=F("step_saved_ms")),
                name="a_step_saves_a_part_of_what_was_idle",
            ),
        ]
        # read by: the list of findings of a period
        indexes = [models.Index(fields=["last_ms"], name="finding_by_last")]

    @property
    def its_job(self) -> Job:
        """The job. Raises ValueError for a finding of a node or a cluster."""
        if self.job is None:
            raise ValueError(f"finding {self.pk} is of no job")
        return self.job

    @property
    def seen_from_ms(self) -> int:
        """When it was seen first: within its first cell, but not before its job began."""
        start_ms = self.job.start_ms if self.job else None
        return self.first_ms if start_ms is None else max(self.first_ms, start_ms)

    @property
    def subject(self) -> str:
        """Whose it is, by name: a job's key, a node, a cluster."""
        return self.node.name if self.node else self.cluster or self.its_job.key


class Said(models.Model):
    """What somebody said or did about a finding: written once, never changed."""

    class Kind(models.TextChoices):
        ACCEPTED = "accepted"
        DISMISSED = "dismissed"
        SNOOZED = "snoozed"
        ASSIGNED = "assigned"
        FIXED = "fixed"
        REOPENED = "reopened"
        CONFIRMED = "confirmed"
        REJECTED = "rejected"

    finding = models.ForeignKey(Finding, on_delete=models.CASCADE, related_name="said")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    by = models.ForeignKey("accounts.User", on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    note = text(500)

    class Meta:
        # read by: a finding's history; the precision of a cause
        indexes = [models.Index(fields=["finding", "at"], name="said_of_finding")]


class Fix(models.Model):
    """A change of a recurring job (one user, name and number of GPUs), told by a person or noticed,
    and what it brought.

    Measured anew each night from runs before and after it (findings/realised.py); figures are
    those of the last time.
    """

    user = models.CharField(max_length=128)
    job_name = models.CharField(max_length=300)
    gpus = models.PositiveIntegerField(
        null=True, help_text="that a run holds; NULL for services, whose runs are days"
    )
    cause = models.CharField(max_length=32)
    finding = models.ForeignKey(
        Finding,
        on_delete=models.SET_NULL,
        null=True,
        related_name="fixes",
        help_text="that somebody called fixed",
    )
    at = models.DateTimeField(
        help_text="runs that ended before are compared with those that began since"
    )
    was_noticed = models.BooleanField(help_text="nobody said so: runs behave differently since")
    outcome = models.CharField(max_length=16)
    runs_before = models.PositiveIntegerField()
    runs_after = models.PositiveIntegerField()
    useful_before = models.FloatField(null=True, help_text="share of the held time, 0 to 1")
    useful_after = models.FloatField(null=True)
    effect_low = models.FloatField(
        null=True, help_text="of useful_after - useful_before, 95 % interval"
    )
    effect_high = models.FloatField(null=True)
    saved_low_ms = models.BigIntegerField(
        help_text="GPU time of all runs since, 0 unless they became shorter"
    )
    saved_high_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "job_name", "gpus", "cause"],
                nulls_distinct=False,
                name="one_fix_per_series_and_cause",
            ),
            models.CheckConstraint(
                condition=Q(saved_low_ms__gte=0, saved_low_ms__lte=F("saved_high_ms")),
                name="realised_savings_are_an_interval",
            ),
        ]
        # read by: the top fixes of a quarter
        indexes = [models.Index(fields=["at"], name="fix_by_at")]
