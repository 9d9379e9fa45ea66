"""Policies, and what came of each ladder that one of them began."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from fleetwatch.lib.model_fields import text
from fleetwatch.notify.models import Delivery

USER = settings.AUTH_USER_MODEL


def _delivery(help_text: str) -> "models.ForeignKey[Delivery | None, Delivery | None]":
    return models.ForeignKey(
        Delivery, on_delete=models.SET_NULL, null=True, related_name="+", help_text=help_text
    )


class Policy(models.Model):
    """What is done about a rule's incidents that nobody answers; off until somebody switches it on,
    and nothing but a rehearsal before `dry_run_until`.
    """

    class Kind(models.TextChoices):
        STOP = "stop_job", "end the job"
        DRAIN = "drain_node", "drain the node"
        WEBHOOK = "webhook", "call a webhook"

    rule = models.OneToOneField(
        "alerts.Rule", on_delete=models.CASCADE, related_name="action_policy"
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    is_enabled = models.BooleanField(default=False)
    teams = models.ManyToManyField(
        "accounts.Team", blank=True, related_name="+", help_text="none: nobody's"
    )
    job_kinds = ArrayField(models.CharField(max_length=16), help_text="jobs.Job.Kind")
    first_wait_minutes = models.PositiveIntegerField(help_text="after the first warning")
    second_wait_minutes = models.PositiveIntegerField(help_text="after the second one")
    max_per_hour = models.PositiveIntegerField(help_text="jobs, or nodes")
    max_usd_per_hour = models.DecimalField(
        max_digits=18,
        decimal_places=6,
        help_text="what the GPUs of all that was acted on within an hour cost an hour",
    )
    channel = models.ForeignKey(
        "notify.Channel",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="the webhook that is called",
    )
    rehearsed_from = models.DateTimeField(
        null=True, help_text="when it was switched on first; None: not yet"
    )
    dry_run_until = models.DateTimeField(null=True, help_text="None: not switched on yet")
    created_at = models.DateTimeField()


class Action(models.Model):
    """One ladder about one incident, from its first warning to what came of it. In a dry run nobody
    is warned, and nothing is done.
    """

    class State(models.TextChoices):
        WARNED = "warned"
        WARNED_AGAIN = "warned_again", "warned again"
        ORDERED = "ordered", "ordered, no answer yet"
        DONE = "done"
        REFUSED = "refused"
        UNHEARD = "unheard", "no answer"
        WOULD = "would", "would have acted"
        KEPT = "kept"
        ENDED = "ended", "nothing was done"

    policy = models.ForeignKey(Policy, on_delete=models.SET_NULL, null=True, related_name="actions")
    incident = models.ForeignKey(
        "alerts.Incident", on_delete=models.SET_NULL, null=True, related_name="actions"
    )
    kind = models.CharField(max_length=16, choices=Policy.Kind.choices)
    is_dry_run = models.BooleanField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.WARNED)
    subject = models.CharField(max_length=410, help_text="the job's key, or the node's name")
    restarts = models.PositiveIntegerField(help_text="of the job: which run of it this is about")
    person = models.ForeignKey(
        USER,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="who was warned; None: who runs the fleet",
    )
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    gpus = models.PositiveIntegerField(help_text="how many the job holds, or the node has")
    usd_per_hour = models.DecimalField(max_digits=18, decimal_places=6)
    began_at = models.DateTimeField(help_text="the first warning")
    warned_again_at = models.DateTimeField(null=True)
    acted_at = models.DateTimeField(null=True)
    warning = _delivery("of the first warning; others of its key went elsewhere")
    second_warning = _delivery("of the second one")
    call = _delivery("to the webhook")
    order_key = text(64, "of the order to its node's agent")
    result = text(300, "what became of it, in words")
    ended_at = models.DateTimeField(null=True, help_text="None: it goes on")
    kept_by = models.ForeignKey(USER, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "incident"],
                condition=Q(ended_at=None),
                name="one_open_ladder_per_incident",
            )
        ]
        indexes = [
            # read by: what was kept, of a job
            models.Index(fields=["subject"], condition=Q(state="kept"), name="action_kept"),
            # read by: the page and the API, the newest first
            models.Index(fields=["-began_at"], name="action_latest"),
            # read by: results, the orders that wait for an answer
            models.Index(fields=["state"], condition=~Q(order_key=""), name="action_by_order"),
        ]

    @property
    def thread(self) -> str:
        """What its messages are about for ever."""
        return f"action/{self.pk}"

    def in_words(self, text: str) -> str:
        """What is said of it in histories."""
        return f"Dry run: {text}" if self.is_dry_run else text
