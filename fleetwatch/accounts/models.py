"""People, their teams and their API tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class Organisation(models.Model):
    """The one row of facts about the customer; read it through selectors.organisation()."""

    name = models.CharField(max_length=100, default="My organisation")
    time_zone = models.CharField(
        max_length=64, default="UTC", help_text="IANA name; entries are cut at its midnight"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="only_one_organisation")
        ]


class Team(models.Model):
    """Who pays.

    A job's account names its team (slug = account) where no mapping rule does
    (costs/mapping/attribution.py).
    """

    slug = models.CharField(max_length=100, unique=True)
    name = models.CharField(max_length=100)


class User(AbstractUser):
    """Someone who logs in. Admins change settings; viewers read."""

    class Role(models.TextChoices):
        ADMIN = "admin"
        VIEWER = "viewer"

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)


class ApiToken(models.Model):
    """A token for the API, to read or also to write: 256 random bits, kept as SHA-256,
    shown once.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True, default="")
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8, help_text="first characters, to recognise it by")
    scope = models.CharField(max_length=16, default="read")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
