"""Reports that were computed: stored, so that what was sent can be read again."""

from django.db import models


class Report(models.Model):
    """One computed report over [start, end)."""

    kind = models.CharField(max_length=32, help_text="weekly_digest")
    start = models.DateTimeField()
    end = models.DateTimeField()
    computed_at = models.DateTimeField()
    content = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "start", "end"], name="one_report_per_kind_and_period")]
