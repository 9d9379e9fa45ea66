"""What a GPU-hour costs, and from when to when."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, BigIntegerRangeField, DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q, Value


def no_overlap(subject: str, name: str) -> ExclusionConstraint:
    """No two rates of one subject hold at the same moment.

    The subject's id stands in it as the range [id, id]: a GiST index compares ranges without
    the extension btree_gist, which the embedded Postgres does not have.
    """
    only_this_id = Func(F(subject), F(subject), Value("[]"), function="int8range", output_field=BigIntegerRangeField())
    validity = Func(F("valid_from"), F("valid_to"), function="tstzrange", output_field=DateTimeRangeField())
    return ExclusionConstraint(
        name=name,
        expressions=[(only_this_id, RangeOperators.EQUAL), (validity, RangeOperators.OVERLAPS)],
        condition=Q(**{f"{subject}__isnull": False}),
    )


class Rate(models.Model):
    """A price per GPU-hour, for a GPU model or (stronger) for one node, valid over [valid_from, valid_to).

    Both ends lie on a UTC hour or the organisation's midnight: entries are cut there.
    """

    gpu_model = models.ForeignKey("inventory.GPUModel", on_delete=models.CASCADE, null=True, related_name="rates")
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, null=True, related_name="rates")
    usd_per_gpu_hour = models.DecimalField(max_digits=18, decimal_places=6)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = still valid")
    is_example = models.BooleanField(default=False, help_text="shipped list price; badged until replaced")
    source = models.CharField(max_length=300, blank=True, default="")
    source_date = models.DateField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(gpu_model__isnull=False, node__isnull=True) | models.Q(gpu_model__isnull=True, node__isnull=False),
                name="a_rate_is_for_a_model_or_a_node",
            ),
            models.CheckConstraint(condition=models.Q(usd_per_gpu_hour__gte=0), name="a_rate_is_not_negative"),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="a_rate_ends_after_it_starts"
            ),
            no_overlap("gpu_model", "one_rate_per_model_at_a_time"),
            no_overlap("node", "one_rate_per_node_at_a_time"),
        ]


class GPURate(models.Model):
    """A view (migration SQL): which rate holds for which GPU from when to when; most specific wins, spans disjoint."""

    pk = models.CompositePrimaryKey("gpu", "valid_from")
    gpu = models.ForeignKey("inventory.GPU", on_delete=models.DO_NOTHING, related_name="+")
    rate = models.ForeignKey(Rate, on_delete=models.DO_NOTHING, related_name="+")
    usd_per_gpu_hour = models.DecimalField(max_digits=18, decimal_places=6)
    is_example = models.BooleanField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "costs_gpurate"


class SummedDay(models.Model):
    """What of a node's day the DaySum rows hold, and of which state of the ledger and the inventory they speak.

    They count only while both still say the same: until then entries are read, so that no figure is ever old.
    """

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="+")
    start = models.DateTimeField(help_text="the organisation's midnight")
    until = models.DateTimeField(help_text="the day's end, or a clock hour within it")
    versions = ArrayField(models.BigIntegerField(), help_text="ledger.NodeDay's of each clock hour that [start, until) touches")
    alike = models.CharField(max_length=32, help_text="digest of which GPUs of the node have one price")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "start"], name="one_sum_per_node_and_day")]


class DaySum(models.Model):
    """GPU time and energy of a node's day, summed over hours and over GPUs of one price; always derived, never edited."""

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="+")
    start = models.DateTimeField(help_text="the organisation's midnight")
    gpu = models.ForeignKey("inventory.GPU", on_delete=models.CASCADE, related_name="+", help_text="one of the GPUs: all have its price")
    job = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=16)
    tier = models.CharField(max_length=16, blank=True, default="")
    is_busy_only = models.BooleanField()
    gpu_ms = models.BigIntegerField()
    energy_j = models.FloatField(null=True, help_text="None = not read")

    class Meta:
        indexes = [
            # read by: every figure over a period
            models.Index(fields=["start", "node"], name="day_sum_by_start"),
            # read by: job pages
            models.Index(fields=["job", "start"], name="day_sum_by_job"),
        ]
