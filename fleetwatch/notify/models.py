"""How people are reached: channels, and one row per send."""

from django.db import models

from fleetwatch.lib.model_fields import text


class Channel(models.Model):
    """One way to reach people. `config` is encrypted; a permanent error disables it, visibly."""

    kind = models.CharField(max_length=32, help_text="kind of one of transports.TRANSPORTS")
    name = models.CharField(max_length=100, unique=True)
    config = models.BinaryField(help_text="encrypted JSON of the transport's settings (secrets.py)")
    gets_digest = models.BooleanField(default=False, help_text="the weekly digest goes here")
    is_enabled = models.BooleanField(default=True)
    disabled_reason = text(300)
    created_at = models.DateTimeField()


class Delivery(models.Model):
    """One message to one channel: the row is the queue. `key` makes a repeat a no-op."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENDING = "sending"
        SENT = "sent"
        FAILED = "failed"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    key = models.CharField(
        max_length=200, help_text="what this send is about, e.g. incident/7/opened"
    )
    message = models.JSONField(help_text="message.Message")
    state = models.CharField(max_length=16, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(
        help_text="not before; while someone sends it, the end of the claim"
    )
    sent_at = models.DateTimeField(null=True)
    last_answer = text(300)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "key"], name="one_delivery_per_channel_and_key"
            )
        ]
        indexes = [
            # read by: deliver_due, which takes the oldest pending one of each channel; the
            # channel's last deliveries
            models.Index(fields=["channel", "state", "id"], name="delivery_by_channel"),
        ]
