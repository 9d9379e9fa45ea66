"""How people are reached: channels, and one row per send."""

from django.db import models


class Channel(models.Model):
    """One way to reach people. `config` is encrypted; a permanent error disables it, visibly."""

    kind = models.CharField(max_length=32, help_text="slack, email")
    name = models.CharField(max_length=100)
    config = models.BinaryField(help_text="encrypted JSON of the transport's settings")
    is_enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField()


class Delivery(models.Model):
    """One message to one channel: the row is the queue. `key` makes a repeat a no-op."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        FAILED = "failed"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    key = models.CharField(max_length=200, help_text="what this send is about, e.g. incident/7/opened")
    message = models.JSONField()
    state = models.CharField(max_length=16, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    last_answer = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["channel", "key"], name="one_delivery_per_channel_and_key")]
        indexes = [models.Index(fields=["state", "next_attempt_at"], name="delivery_due")]
