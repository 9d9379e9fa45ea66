"""Reports that were computed: stored and never overwritten, so that what was sent can be read again. And the queue that computes them."""

from django.db import models
from django.db.models import Q


class Report(models.Model):
    """One version of one computed report over [start, end). What changed is a new version; the old one stays."""

    kind = models.CharField(max_length=32, help_text="weekly_digest, statement, fleet")
    subject = models.CharField(
        max_length=100, blank=True, default="", help_text="the team's slug, (none) for jobs without one; fleet: empty"
    )
    start = models.DateTimeField()
    end = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)
    computed_at = models.DateTimeField()
    inputs = models.CharField(max_length=64, blank=True, default="", help_text="digest of what it was first computed from (inputs.py)")
    cost_usd = models.DecimalField(max_digits=24, decimal_places=6, null=True, help_text="the total, in micro-dollars")
    content = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject", "start", "version"], name="one_report_per_version")]


class MonthRun(models.Model):
    """One computation of all reports of a month: asked for, then planned into parts, then done."""

    class State(models.TextChoices):
        WAITING = "waiting"
        COMPUTING = "computing"
        DONE = "done"
        STALE = "stale"  # the ledger changed meanwhile: another run took over
        FAILED = "failed"

    month = models.CharField(max_length=7, help_text="2026-10")
    start = models.DateTimeField()
    end = models.DateTimeField()
    previous_start = models.DateTimeField(help_text="what it is compared with")
    previous_end = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    asked_at = models.DateTimeField()
    asked_by = models.CharField(max_length=150, blank=True, default="", help_text="a person's name; empty = the clock")
    planned_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    inputs = models.CharField(max_length=64, blank=True, default="")
    restarts = models.PositiveIntegerField(default=0, help_text="how often the ledger changed while it was computed")
    note = models.CharField(max_length=300, blank=True, default="", help_text="for people: why it failed, or had nothing to do")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["month"], condition=Q(state__in=("waiting", "computing")), name="one_open_run_per_month")
        ]


class ReportPart(models.Model):
    """One report to compute of a run. The row is the queue: whoever locks it computes it."""

    run = models.ForeignKey(MonthRun, on_delete=models.CASCADE, related_name="parts")
    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=100, blank=True, default="")
    cost_usd = models.DecimalField(max_digits=24, decimal_places=6, help_text="its part of the fleet's micro-dollars")
    previous_usd = models.DecimalField(max_digits=24, decimal_places=6, null=True, help_text="None = nothing to compare with")
    handed_out_at = models.DateTimeField(null=True, help_text="given to Celery; again, where nothing came of it")
    done_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    report = models.ForeignKey(Report, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "kind", "subject"], name="one_part_per_run_and_subject")]
