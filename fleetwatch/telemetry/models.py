"""Windows as received (Batch), as sealed columns (Chunk), and the marks that say what is still to
do.
"""

from django.db import models

from fleetwatch.lib.multirange import Int8MultiRangeField


class ReceivedSequence(models.Model):
    """Which sequences of a boot were ever received: a batch's identity outlives its rows."""

    node = models.ForeignKey("inventory.Node", on_delete=models.PROTECT)
    boot_id = models.CharField(max_length=128)
    boot_start_ms = models.BigIntegerField()
    clock_offset_ms = models.BigIntegerField(
        default=0, help_text="added to the agent's times of this boot (beyond 2 s)"
    )
    received = Int8MultiRangeField(help_text="sequences, half-open")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "boot_id"], name="one_row_per_node_and_boot")
        ]


class Batch(models.Model):
    """A batch as received, in a table partitioned by `received_at` (sql/hot_batches.sql);
    dropped once sealed.
    """

    pk = models.CompositePrimaryKey("received_at", "id")
    id = models.BigIntegerField(help_text="from the sequence telemetry_batch_id_seq")
    received_at = models.DateTimeField()
    node_id = models.BigIntegerField()
    boot_id = models.CharField(max_length=128)
    boot_start_ms = models.BigIntegerField()
    sequence = models.BigIntegerField()
    start_ms = models.BigIntegerField(
        null=True, help_text="corrected start of the first window; None = no window"
    )
    end_ms = models.BigIntegerField(
        null=True, help_text="corrected end of the last window; None = no window"
    )
    offset_ms = models.BigIntegerField(
        default=0, help_text="clock correction to add to every time in the payload"
    )
    quarantined = models.BooleanField(
        default=False, help_text="more than 5 minutes in the future: kept, not used"
    )
    payload = models.BinaryField(help_text="as packed (agent/packed.py)")

    class Meta:
        db_table = "telemetry_batch"


class SealMark(models.Model):
    """A hot batch has windows in this node's hour: seal them, then delete the mark."""

    node_id = models.BigIntegerField()
    hour = models.DateTimeField()
    batch_id = models.BigIntegerField()
    batch_received_at = models.DateTimeField()

    class Meta:
        # read by: seal, which claims whole (node, hour) groups of closed hours
        indexes = [models.Index(fields=["hour", "node_id"], name="sealmark_by_hour")]


class TouchedHour(models.Model):
    """Something changed in this node's hour: post it again.

    Append-only; deleted by id after posting.
    """

    node_id = models.BigIntegerField()
    hour = models.DateTimeField()
    from_ms = models.BigIntegerField(
        default=0, db_default=0, help_text="nothing of the hour changed before; 0 = all of it may"
    )

    class Meta:
        # read by: ledger posting, which claims whole (node, hour) groups
        indexes = [models.Index(fields=["node_id", "hour"], name="touchedhour_by_node")]


class LastPosting(models.Model):
    """When hours of a node were last posted: the hour that goes on waits for a while from then."""

    node_id = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()


class LateHour(models.Model):
    """Windows of this node's hour came when it was final: how many batches brought some.

    They are in no figure.
    """

    node_id = models.BigIntegerField()
    hour = models.DateTimeField()
    batches = models.PositiveBigIntegerField()
    received_at = models.DateTimeField(help_text="when the last of them came")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node_id", "hour"], name="one_row_per_late_hour")
        ]


class Chunk(models.Model):
    """A node's sealed windows that start in [start, end), as lossless packed columns (codec.py)."""

    node_id = models.BigIntegerField()
    start = models.DateTimeField()
    end = models.DateTimeField()
    version = models.PositiveSmallIntegerField(help_text="of the codec that packed it")
    window_count = models.PositiveIntegerField()
    payload = models.BinaryField(help_text="GPU windows, packed")
    host = models.BinaryField(default=b"", help_text="host samples, packed; empty = none")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node_id", "start"], name="one_chunk_per_node_and_start"
            )
        ]


class DayMatrix(models.Model):
    """A node's day for heat maps: one byte per GPU and 5 minutes; 255 = nothing observed."""

    node_id = models.BigIntegerField()
    day = models.DateField()
    metric = models.CharField(max_length=32)
    gpu_ids = models.JSONField(help_text="row order")
    cells = models.BinaryField(help_text="uint8, GPUs x 288")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node_id", "day", "metric"], name="one_matrix_per_node_day_metric"
            )
        ]


class HealthEvent(models.Model):
    """Something the driver or the platform said about a GPU (gpu null: about the node)."""

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="health_events"
    )
    gpu = models.ForeignKey(
        "inventory.GPU", on_delete=models.CASCADE, null=True, related_name="health_events"
    )
    at_ms = models.BigIntegerField()
    kind = models.CharField(max_length=32)
    code = models.BigIntegerField(null=True)
    text = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        # read by: selectors.events_of_nodes
        indexes = [models.Index(fields=["node", "at_ms"], name="healthevent_by_node_and_time")]
        constraints = [
            models.UniqueConstraint(
                fields=["node", "gpu", "at_ms", "kind", "code"],
                nulls_distinct=False,
                name="an_event_once",
            )
        ]
