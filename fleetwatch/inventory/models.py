"""The machines: nodes, their GPUs by UUID and where these were when, and what is known of each GPU
model.
"""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import BigIntegerRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q, Value

from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.model_fields import text

# What was received so long after it was measured is a replay or an import: its node was never live,
# and is not silent now.
REPLAYED_AFTER_MS = 3_600_000


class GPUModel(models.Model):
    """A GPU product ("H100 SXM"), with the facts that prices and power ratios need; None = not
    known.
    """

    name = models.CharField(max_length=100, unique=True)
    idle_w = models.FloatField(null=True, help_text="bare idle board power, lower end")
    limit_w = models.FloatField(null=True, help_text="default power limit")
    board = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        related_name="slices",
        help_text="a virtual GPU is a part of it",
    )
    board_share = models.DecimalField(
        max_digits=11, decimal_places=10, null=True, help_text="the part, by memory"
    )
    board_from = models.DateTimeField(
        null=True, help_text="rates of the board reach it from then on; None = ever"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(board=None, board_share=None, board_from=None)
                | Q(board__isnull=False, board_share__gt=0, board_share__lte=1),
                name="a_part_of_a_board_has_its_share",
            )
        ]


class Node(models.Model):
    """One machine, by the name its agent token was made for."""

    name = models.CharField(max_length=253, unique=True)
    labels = models.JSONField(default=dict)
    window_s = models.PositiveIntegerField(default=10)
    last_ms = models.BigIntegerField(
        null=True, help_text="newest window end, host sample end or event: its last sign of life"
    )
    silent_ms = models.BigIntegerField(
        null=True, help_text="its silence is on the bill until then (silence.py); None = never was"
    )
    last_received_at = models.DateTimeField(null=True)
    agent = models.JSONField(
        default=dict,
        help_text="what the newest batch said of its agent: version, driver, source, ...",
    )
    clock_offset_ms = models.BigIntegerField(
        null=True, help_text="server minus agent clock at the newest batch; None = not sent"
    )
    facts_order = models.JSONField(
        default=list, help_text="(boot_start_ms, sequence) of the batch these facts come from"
    )
    facts_digest = models.BinaryField(
        null=True,
        help_text="of what the newest batch said of labels and GPUs; None = not known (steady.py)",
    )
    continued_order = models.JSONField(
        null=True, help_text="facts_order of the GPUs for which windows_ms speaks"
    )
    windows_ms = models.BigIntegerField(
        null=True, help_text="end of the newest window of these GPUs; None = their own rows say it"
    )
    words_digest = models.BinaryField(
        null=True,
        help_text="of what it said of jobs, where that simply goes on; None = not known"
        " (jobs/repeats.py)",
    )
    repeated_from_ms = models.BigIntegerField(
        null=True,
        help_text="end of the batch whose words on jobs the node's batches repeat since then;"
        " None = they repeat none (jobs/repeats.py)",
    )
    repeated_until_ms = models.BigIntegerField(
        null=True, help_text="until when they repeated them; None = not yet"
    )

    @property
    def live_ms(self) -> int | None:
        """Where the capacity of its GPUs ends for now: its last sign of life, or later where its
        silence is on the bill.
        """
        if self.last_ms is None or self.silent_ms is None:
            return self.last_ms
        return max(self.last_ms, self.silent_ms)

    def newest_of(self, last_ms: int | None, facts_order: list[int]) -> int | None:
        """End of the newest window of one of its GPUs whose row says these of it."""
        if last_ms is None or self.windows_ms is None or facts_order != self.continued_order:
            return last_ms
        return max(last_ms, self.windows_ms)

    @property
    def is_live(self) -> bool:
        """Whether its silence counts: it reported as things happened, or was live before what came
        late (then `silent_ms` is at least its last sign of life).
        """
        if self.last_ms is None or self.last_received_at is None:
            return False
        if self.silent_ms is not None and self.silent_ms >= self.last_ms:
            return True
        return to_ms(self.last_received_at) - self.last_ms < REPLAYED_AFTER_MS


class RecalledNode(models.Model):
    """A mark: the node's next batch is to be read whole, for something else is believed of a job
    than the node says. Appended without a lock on the node.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")


class Departure(models.Model):
    """A node that was silent was said to be gone: no capacity from its last window before `at_ms`
    until it reports again.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="departures")
    at_ms = models.BigIntegerField(help_text="when it was said")
    by = models.CharField(max_length=200, help_text="who said it, or which rule")
    reason = models.CharField(max_length=300)


class ElasticRule(models.Model):
    """Nodes that come and go by themselves: silent ones are gone, not unobserved (silence.py)."""

    kind = models.CharField(max_length=16, help_text="name, label or cluster")
    pattern = models.CharField(max_length=253, help_text="with * and ?; of a label key=value")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "pattern"], name="one_elastic_rule_of_a_kind_and_pattern"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pattern}"


class Intake(models.Model):
    """What a node brought that was new, in the newest hour in which it brought anything
    (intake.py).
    """

    node = models.OneToOneField(
        Node, on_delete=models.CASCADE, primary_key=True, related_name="intake"
    )
    hour_ms = models.BigIntegerField()
    jobs = models.BigIntegerField()
    labels = models.BigIntegerField()
    teams = models.BigIntegerField()
    gpu_models = models.BigIntegerField()
    gpus = models.BigIntegerField(default=0)
    events = models.BigIntegerField(default=0)
    batch_bytes = models.BigIntegerField(
        default=0, help_text="as sent, but those that came the short way (ingest/door.py)"
    )


class GPU(models.Model):
    """One GPU or MIG instance, by UUID, as one node has or had it. An instance has a parent and is
    no capacity of its own.

    A GPU that changed nodes has a row with each, for ever; its stays (Stay) say where it was when,
    under one UUID.
    """

    uuid = models.CharField(max_length=96)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="gpus")
    index = models.PositiveIntegerField(null=True)
    model_name = text(100, "as the driver says it")
    model = models.ForeignKey(GPUModel, on_delete=models.PROTECT, null=True, related_name="gpus")
    memory_total_bytes = models.BigIntegerField(null=True)
    power_limit_w = models.FloatField(null=True)
    sm_count = models.PositiveIntegerField(null=True)
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="instances"
    )
    mig_profile = text(32)
    persistence = models.BooleanField(null=True)
    unread = models.JSONField(default=dict, help_text="metric -> why it can't be read")
    first_ms = models.BigIntegerField(
        null=True, help_text="start of the earliest window: capacity begins"
    )
    last_ms = models.BigIntegerField(
        null=True, help_text="end of the newest window when it was last written: read newest_ms"
    )
    retired_ms = models.BigIntegerField(
        null=True,
        help_text="capacity ended here (by hand, 7 silent days, or it went to another node)",
    )
    facts_order = models.JSONField(
        default=list, help_text="(boot_start_ms, sequence) of the batch these facts come from"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["uuid", "node"], name="one_row_per_gpu_and_node")
        ]

    @property
    def limit_w(self) -> float | None:
        """What the board may draw, by itself or else by its model; None where neither is known."""
        if self.power_limit_w is not None:
            return self.power_limit_w
        return self.model.limit_w if self.model else None

    @property
    def capacity_end_ms(self) -> int | None:
        """Where its capacity ends: its retirement, or where the node's ends for now."""
        return self.node.live_ms if self.retired_ms is None else self.retired_ms

    @property
    def newest_ms(self) -> int | None:
        """End of its newest window; None before the first.

        While batches only continue (steady.py), its node's row says it.
        """
        return self.node.newest_of(self.last_ms, self.facts_order)


def _hash(field: str) -> Func:
    """The 64-bit hash of a text as the range [hash, hash]: a GiST index compares it without the
    extension btree_gist.
    """
    value = Func(
        F(field), Value(0), function="hashtextextended", output_field=models.BigIntegerField()
    )
    return Func(
        value, value, Value("[]"), function="int8range", output_field=BigIntegerRangeField()
    )


class Stay(models.Model):
    """A time in which a node reported a GPU without a gap of ten minutes (stays.py)."""

    gpu = models.ForeignKey(GPU, on_delete=models.CASCADE, related_name="stays")
    uuid = models.CharField(max_length=96, help_text="the GPU's: at one moment it is at one node")
    first_ms = models.BigIntegerField(help_text="start of the first window")
    last_ms = models.BigIntegerField(help_text="end of the last window when it was last written")
    is_believed = models.BooleanField(
        help_text="False: another node observed the GPU then, or is not silent about it yet"
    )

    class Meta:
        indexes = [
            # read by: registration and posting, which need all stays of a GPU
            models.Index(fields=["uuid", "first_ms"], name="stay_by_uuid"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(first_ms__lt=F("last_ms")), name="a_stay_ends_after_it_begins"
            ),
            ExclusionConstraint(
                name="one_node_at_a_time",
                expressions=[
                    (_hash("uuid"), RangeOperators.EQUAL),
                    (
                        Func(
                            F("first_ms"),
                            F("last_ms"),
                            function="int8range",
                            output_field=BigIntegerRangeField(),
                        ),
                        RangeOperators.OVERLAPS,
                    ),
                ],
                condition=Q(is_believed=True),
            ),
        ]
