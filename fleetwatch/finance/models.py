"""What finance keeps of its own: policies that are tried on more hours than a request can judge."""

from datetime import timedelta

from django.db import models
from django.db.models import Q

from fleetwatch.ledger.models import Policy
from fleetwatch.operations.models import BackgroundWork


class PolicyTrial(BackgroundWork):
    """Another policy tried on past hours, node by node; `sums` is what is judged so far."""

    policy = models.ForeignKey(Policy, models.PROTECT, help_text="which was in force then")
    changed = models.JSONField(help_text="threshold -> the tried value")
    start = models.DateTimeField()
    end = models.DateTimeField()
    nodes_all = models.PositiveIntegerField()
    nodes_done = models.PositiveIntegerField(default=0)
    last_node = models.BigIntegerField(default=0, help_text="nodes are judged in order of their id")
    sums = models.JSONField(default=dict, help_text="TrialSums.to_json")

    @property
    def hours(self) -> int:
        return (self.end - self.start) // timedelta(hours=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="running"), name="one_running_policy_trial"
            )
        ]
