"""What lets an agent in."""

from dataclasses import dataclass

from django.db import models

MAX_USES = 1_000  # of one enrolment token: what leaks lets in so many strangers at most


@dataclass(frozen=True, slots=True)
class Rights:
    """What an admin lets a token say beyond its own node; an enrolment gives none of it."""

    may_import: bool = False
    speaks_for: str = ""

    @property
    def are_beyond(self) -> bool:
        """Whether they let it say anything beyond its own node."""
        return self.may_import or bool(self.speaks_for)

    @property
    def in_words(self) -> str:
        """What they let it do, for people."""
        words = [f"speaks for {self.speaks_for}"] if self.speaks_for else []
        words += ["imports accounting"] if self.may_import else []
        return " and ".join(words) or "reports for its own node only"


class AgentToken(models.Model):
    """Speaks for one node only; 256 random bits, kept as SHA-256."""

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="agent_tokens"
    )
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    may_import = models.BooleanField(
        default=False, help_text="whether it may send accounting: batches of jobs without windows"
    )
    speaks_for = models.CharField(
        max_length=128,
        blank=True,
        default="",
        help_text='the cluster whose books it speaks for; "" = none',
    )

    @property
    def rights(self) -> "Rights":
        """What it may say beyond its own node."""
        return Rights(self.may_import, self.speaks_for)


class EnrollmentToken(models.Model):
    """Lets new nodes fetch their own agent token, a limited number of times, for a limited time."""

    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(uses_left__lte=MAX_USES),
                name="at_most_1000_uses_of_an_enrolment_token",
            )
        ]


class Enrollment(models.Model):
    """One use of an enrolment token: the node that it let in, and from where."""

    token = models.ForeignKey(EnrollmentToken, on_delete=models.CASCADE, related_name="enrollments")
    agent_token = models.OneToOneField(
        AgentToken, on_delete=models.CASCADE, related_name="enrollment"
    )
    at = models.DateTimeField()
    address = models.GenericIPAddressField(
        null=True, help_text="the agent's, as the trusted proxies tell it"
    )
    # read at each enrolment: whether somebody came from there before
    network = models.CharField(
        max_length=43, db_index=True, help_text='its /24 or /48; "" = the address is not known'
    )
    is_new_network = models.BooleanField(
        help_text="nobody had enrolled from there before, and somebody from elsewhere"
    )


class NodeOrder(models.Model):
    """One thing that the agent of a node is asked to do, until it expires (node_orders.py)."""

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="orders")
    key = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=32)
    scheduler = models.CharField(max_length=64)
    job = models.CharField(max_length=200, help_text="its id at its scheduler")
    gpus = models.JSONField(help_text="UUIDs that it holds on the node")
    grace_ms = models.BigIntegerField()
    reason = models.CharField(max_length=200)
    is_dry_run = models.BooleanField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        # read by: the door, every few seconds
        indexes = [models.Index(fields=["expires_at"], name="order_by_expiry")]
