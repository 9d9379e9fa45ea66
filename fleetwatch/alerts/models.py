"""Rules, and the incidents they opened."""

from typing import Any

from django.db import models

from fleetwatch.lib.model_fields import text


class Rule(models.Model):
    """When to tell people. `condition` names one of conditions.CONDITIONS."""

    name = models.CharField(max_length=100)
    condition = models.CharField(max_length=32, default="job_idle")
    threshold = models.FloatField(help_text="in the condition's unit: minutes for job_idle")
    is_enabled = models.BooleanField(default=True)
    channels = models.ManyToManyField(
        "notify.Channel", blank=True, related_name="rules", help_text="none chosen = every channel"
    )
    created_at = models.DateTimeField()


class Incident(models.Model):
    """One breach of one rule by one subject: opened once, kept up to date, resolved by itself."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="incidents")
    subject = models.CharField(max_length=400, help_text="by its page: a job's key")
    opened_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    resolution = text(200, "why it was resolved")
    note = text(200, "what keeps us from knowing: no data since ...")
    facts = models.JSONField(default=dict, help_text="breach.Breach: what was true at updated_at")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=models.Q(resolved_at=None),
                name="one_open_incident_per_subject",
            )
        ]
        indexes = [
            # read by: the newest incidents on pages
            models.Index(fields=["-opened_at"], name="incident_latest")
        ]

    @property
    def of_condition(self) -> dict[str, Any]:
        """What only the rule's condition knows of it; of an incident from before there were
        breaches that is all there is.
        """
        own: dict[str, Any] = self.facts.get("facts", self.facts)
        return own
