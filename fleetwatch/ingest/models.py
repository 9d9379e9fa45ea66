"""What lets an agent in."""

from django.db import models


class AgentToken(models.Model):
    """Speaks for one node only; 256 random bits, kept as SHA-256."""

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="agent_tokens")
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)


class EnrollmentToken(models.Model):
    """Lets new nodes fetch their own agent token, a limited number of times, for a limited time."""

    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField()
    revoked_at = models.DateTimeField(null=True)
