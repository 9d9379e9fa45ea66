"""What a GPU-hour costs, and from when to when."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import BigIntegerRangeField, DateTimeRangeField, RangeOperators
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
