"""What finance keeps of its own: policies that are tried on more hours than a request can judge."""

from datetime import timedelta

from django.db import models
from django.db.models import Q

from fleetwatch.ledger.models import Policy


class PolicyTrial(models.Model):
    """Another policy tried on past hours, node by node; `sums` is what is judged so far."""

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        STOPPED = "stopped"  # by a person
        FAILED = "failed"

    asked_at = models.DateTimeField()
    asked_by = models.CharField(max_length=150, help_text="a person's name")
    policy = models.ForeignKey(Policy, models.PROTECT, help_text="which was in force then")
    changed = models.JSONField(help_text="threshold -> the tried value")
    start = models.DateTimeField()
    end = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    nodes_all = models.PositiveIntegerField()
    nodes_done = models.PositiveIntegerField(default=0)
    last_node = models.BigIntegerField(default=0, help_text="nodes are judged in order of their id")
    sums = models.JSONField(default=dict, help_text="TrialSums.to_json")
    worked_until = models.DateTimeField(
        null=True, help_text="a worker has it until then; afterwards another one may go on"
    )
    finished_at = models.DateTimeField(null=True)

    @property
    def hours(self) -> int:
        return (self.end - self.start) // timedelta(hours=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="running"), name="one_running_policy_trial"
            )
        ]
