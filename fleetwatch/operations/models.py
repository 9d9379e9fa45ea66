"""What FleetWatch itself did: one row per run of background work, one per living process."""

from datetime import timedelta

from django.db import models

LONGEST_NAME = 64
KEEP_RUNS = timedelta(days=7)
OF_A_WORKER = "worker of "  # before a worker's host: its own heartbeat


class JobRun(models.Model):
    """One run of a background task or command.

    `ok` is None while it runs (or when it was killed).
    """

    name = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    ok = models.BooleanField(null=True)
    did = models.JSONField(default=dict, help_text="counts, as the service answered")
    error = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["name", "-started_at"], name="jobrun_latest_by_name")]


class Heartbeat(models.Model):
    """When a kind of process, or one worker (OF_A_WORKER), last said that it lives, and since when
    it did so without a pause; /readyz and alerts read it.
    """

    name = models.CharField(max_length=LONGEST_NAME, primary_key=True)
    at = models.DateTimeField()
    since = models.DateTimeField(help_text="without a pause of 90 s since then")


class BackgroundWork(models.Model):
    """What somebody asked for and no request waits for (background.py): its columns."""

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        STOPPED = "stopped"  # by a person
        FAILED = "failed"

    asked_at = models.DateTimeField()
    asked_by = models.CharField(max_length=150, help_text="a person's name")
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    worked_until = models.DateTimeField(
        null=True, help_text="a worker has it until then; afterwards another one may go on"
    )
    takeovers = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,  # of an older process that asks for some meanwhile
        help_text="how often another worker went on, as the one that had it died",
    )
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
