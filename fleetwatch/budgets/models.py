"""Budgets as they were set, and what is derived from hours of dollars: forecasts and anomalies."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

KINDS = ("fleet", "team", "gpu_model", "node")  # of series; the fleet's key is ""


class Budget(models.Model):
    """What may be spent from a month on.

    Never edited: a change is a new row, and the newest one counts (budgets.py).
    """

    team = models.ForeignKey(
        "accounts.Team",
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="None = the whole fleet",
    )
    month = models.DateField(help_text="its first day, in the organisation's zone")
    repeats = models.BooleanField(
        default=False, help_text="holds for the months after it too, until another one begins"
    )
    amount = models.DecimalField(
        max_digits=18, decimal_places=6, null=True, help_text="None = no budget from this month on"
    )
    currency = models.CharField(
        max_length=3,
        default="USD",
        help_text="converted by the rate of exchange at each month's beginning",
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)

    class Meta:
        # read by: the budgets of a month
        indexes = [models.Index(fields=["month"], name="budget_by_month")]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount__isnull=True) | Q(amount__gt=0), name="a_budget_is_above_zero"
            ),
            models.CheckConstraint(condition=Q(month__day=1), name="a_budget_is_for_a_month"),
        ]


class SpendDay(models.Model):
    """Dollars of one team's, GPU model's, node's or the fleet's day by hour on the wall; derived,
    replaced when they changed.

    `usd` and `wasted_usd` are those of the day as costs gave them: where they still are what costs
    gives, the hours hold.
    """

    kind = models.CharField(max_length=16)
    key = models.CharField(
        max_length=200,
        help_text='as costs groups them: "" = what no job held, "(none)" = jobs without a team',
    )
    start = models.DateTimeField(help_text="the organisation's midnight")
    usd = models.DecimalField(max_digits=24, decimal_places=6)
    wasted_usd = models.DecimalField(
        max_digits=24, decimal_places=6, help_text="certain and probable"
    )
    hours = ArrayField(
        models.FloatField(null=True),
        size=24,
        help_text="dollars; None = the ledger says nothing, or no such hour",
    )
    wasted_hours = ArrayField(models.FloatField(null=True), size=24)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "key", "start"], name="one_row_per_series_and_day"
            )
        ]
        # read by: forecasts, anomalies
        indexes = [models.Index(fields=["kind", "start"], name="spend_day_by_kind")]


class Outlook(models.Model):
    """What is expected of a team or the fleet, as made from the days before `origin`; forecast.py
    says how.
    """

    kind = models.CharField(max_length=16)
    key = models.CharField(max_length=200)
    origin = models.DateTimeField(help_text="the organisation's midnight: what comes begins here")
    made_at = models.DateTimeField()
    days = models.PositiveIntegerField(help_text="of history, from the first one with dollars on")
    has_shifted = models.BooleanField(help_text="the level is that of the last week alone")
    usd_per_hour = models.JSONField(help_text="7 days from origin's on × 24 hours on the wall")
    low = models.JSONField(
        help_text="by days ahead: lower end of the range, relative to the forecast"
    )
    high = models.JSONField()
    median_error = models.JSONField(
        help_text=(
            "by days ahead: the same forecast at earlier days against what came; null = never tried"
        )
    )
    tries = models.JSONField(help_text="by days ahead: how often it was tried")
    is_whole = models.BooleanField(help_text="all of the history that there is was read")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "key"], name="one_outlook_per_series")
        ]


class Anomaly(models.Model):
    """Hours in which a series' dollars were far from what is usual then (anomalies.py).

    It grows while it lasts.
    """

    kind = models.CharField(max_length=16)
    key = models.CharField(max_length=200)
    metric = models.CharField(max_length=16, help_text="cost or wasted")
    start = models.DateTimeField()
    end = models.DateTimeField()
    usd = models.DecimalField(max_digits=18, decimal_places=6, help_text="of these hours")
    usual_usd = models.DecimalField(
        max_digits=18, decimal_places=6, help_text="what is usual in them"
    )
    spreads = models.FloatField(help_text="how many usual spreads its farthest hour is off; signed")
    movers = models.JSONField(
        default=list,
        help_text="kind, key, label, usd: what changed most against the same hours before",
    )
    found_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "key", "metric", "start"], name="one_anomaly_per_series_and_start"
            )
        ]
        # read by: the list, newest first
        indexes = [models.Index(fields=["end"], name="anomaly_by_end")]
