"""The ledger: what sums are made of (Entry) and the spans behind them (HourRuns, Run)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q

from fleetwatch.ledger.named_numbers import NamedNumbers
from fleetwatch.ledger.policy import FIGURES, STATES
from fleetwatch.lib.intervals import HOUR_MS

HOURS = 24


def _word(length: int, help_text: str = "") -> "models.CharField[str, str]":
    return models.CharField(max_length=length, blank=True, default="", help_text=help_text)


class Policy(models.Model):
    """One version of all thresholds (policy.py names them).

    Never edited: a change is a new version.
    """

    version = models.PositiveIntegerField(unique=True)
    thresholds = models.JSONField()
    created_at = models.DateTimeField()


class Entry(models.Model):
    """GPU time of one GPU in one hour cut, of one holder, in one state. Sums of these are every
    figure.

    `gpu` is the GPU that was judged: a physical GPU, or a MIG instance of one; capacity
    groups by coalesce(gpu.parent, gpu). Rows of a reposted (gpu, cut) are replaced whole.
    """

    # Without an index of each key alone: those below begin with them. Only the job is checked row
    # by row, it alone is ever deleted; to check all four costs a third of posting's writes.
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    gpu = models.ForeignKey(
        "inventory.GPU", on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    start = models.DateTimeField(
        help_text="start of the hour cut (clock hour, also cut at the organisation's midnight)"
    )
    job = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True, db_index=False)
    state = models.CharField(max_length=16)
    kind = _word(16, "gap, within, spinning, cold, held, interactive")
    reason = _word(32, "why unobserved, unavailable or orphaned")
    signal = _word(32, "activity signal that decided")
    efficiency_source = _word(16, "sensors, power (estimated), none (busy time only)")
    tier = _word(16, "waste tier: certain, probable, potential, or none")
    policy = models.ForeignKey(
        Policy, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    gpu_ms = models.BigIntegerField()
    energy_j = models.FloatField(null=True, help_text="None = not read")

    class Meta:
        indexes = [
            # read by: every report over a period
            models.Index(fields=["start", "gpu"], name="entry_by_start"),
            # read by: posting, which replaces a node's hours; node pages
            models.Index(fields=["node", "start"], name="entry_by_node"),
            # read by: explain, and posting where a GPU's capacity ended earlier
            models.Index(fields=["gpu", "start"], name="entry_by_gpu"),
            # read by: job pages
            models.Index(fields=["job", "start"], name="entry_by_job"),
        ]


class ClosedMonth(models.Model):
    """A month of the organisation whose entries no posting writes any more, and who closed it.

    Never edited, never reopened.
    """

    month = models.DateField(unique=True, help_text="its first day")
    start = models.DateTimeField(help_text="the organisation's midnight that begins it")
    end = models.DateTimeField(help_text="and the one that ends it: all before is closed")
    policy = models.ForeignKey(
        Policy,
        on_delete=models.PROTECT,
        help_text="judges hours of it that had no entry when it was closed",
    )
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=200)
    reason = _word(300)


class Adjustment(models.Model):
    """What a judgement of a closed month's hour says beyond its entries: signed, written once,
    never changed.

    Entries and adjustments of a GPU and cut sum to what the newest judgement says. It is a line of
    the month in which it was booked.
    """

    node = models.ForeignKey("inventory.Node", on_delete=models.PROTECT)
    gpu = models.ForeignKey("inventory.GPU", on_delete=models.PROTECT)
    start = models.DateTimeField(help_text="start of the hour cut that it corrects")
    job = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True)
    state = models.CharField(max_length=16)
    kind = _word(16)
    reason = _word(32)
    signal = _word(32)
    efficiency_source = _word(16)
    tier = _word(16)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT)
    gpu_ms = models.BigIntegerField(help_text="signed; 0 where only the energy differs")
    energy_j = models.FloatField(null=True, help_text="signed; None = not read")
    cause = models.CharField(
        max_length=32, help_text="why it is judged otherwise now (adjustments.CAUSES)"
    )
    booked_at = models.DateTimeField()

    class Meta:
        indexes = [
            # read by: statements, which show a month's adjustments
            models.Index(fields=["booked_at"], name="adjustment_by_booking"),
            # read by: posting and check_ledger, which compare a node's hours with a judgement
            models.Index(fields=["node", "start"], name="adjustment_by_node"),
        ]


class HourRuns(models.Model):
    """The parts of runs of one GPU and holder within one hour cut, as columns: a place for each
    part, in order of time. Posting replaces a row whole; `Run` has them one by one.

    Figures are sums, so that parts add up.
    """

    # Not checked row by row: runs are written with the entries of their hour, whose jobs are, and
    # cost half of posting's writes.
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    gpu = models.ForeignKey(
        "inventory.GPU", on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.SET_NULL, null=True, db_index=False, db_constraint=False
    )
    cut_ms = models.BigIntegerField(help_text="start of the hour cut, as of Entry")
    in_trouble = models.BooleanField(
        help_text="some part is spinning or orphaned, or quiet with idle time"
    )
    conditions = ArrayField(models.SmallIntegerField(), help_text="places in policy.CONDITIONS")
    begins = ArrayField(models.IntegerField(), help_text="ms after the start of the cut")
    ends = ArrayField(models.IntegerField(), help_text="ms after the start of the cut")
    continues = ArrayField(
        models.BooleanField(),
        help_text="goes on from the part before it of the same GPU, holder and condition",
    )
    state_ms = ArrayField(
        models.IntegerField(),
        help_text="GPU-milliseconds, part by part in the order of policy.STATES",
    )
    figures = ArrayField(
        models.FloatField(), help_text="part by part in the order of policy.FIGURES"
    )

    class Meta:
        indexes = [
            # read by: timelines of GPUs
            models.Index(fields=["gpu", "cut_ms"], name="hour_runs_by_gpu"),
            # read by: posting, which replaces a node's hours; what runs now
            models.Index(fields=["node", "cut_ms"], name="hour_runs_by_node"),
            # read by: job pages and alerts
            models.Index(fields=["job", "cut_ms"], name="hour_runs_by_job"),
            # read by: alerts; who is in trouble is found without the others
            models.Index(
                fields=["cut_ms"], condition=Q(in_trouble=True), name="hour_runs_in_trouble"
            ),
        ]


class Run(models.Model):
    """The part within one hour cut of a run: a maximal span of one GPU and holder in one condition.
    A view of HourRuns: it is only read.

    Whoever asks of a time bounds `cut_ms` too (`overlapping`): that alone finds rows by an index.
    selectors.runs() joins the parts into the runs that timelines, alerts and explanations read.
    """

    node = models.ForeignKey("inventory.Node", on_delete=models.DO_NOTHING, related_name="+")
    gpu = models.ForeignKey("inventory.GPU", on_delete=models.DO_NOTHING, related_name="+")
    job = models.ForeignKey("jobs.Job", on_delete=models.DO_NOTHING, null=True, related_name="+")
    cut_ms = models.BigIntegerField(help_text="start of the hour cut, as of Entry")
    condition = models.CharField(
        max_length=16, help_text="quiet, spinning, active, free, orphaned, unavailable, unobserved"
    )
    start_ms = models.BigIntegerField()
    end_ms = models.BigIntegerField()
    continues = models.BooleanField(
        default=False,
        help_text="goes on from the part before it of the same GPU, holder and condition",
    )
    state_ms = NamedNumbers(int, names=STATES, help_text="state -> GPU-milliseconds")
    figures = NamedNumbers(
        float,
        names=FIGURES,
        help_text="per column: ms in which it was read (_ms), sum of value x ms (_sum)",
    )

    class Meta:
        managed = False  # sql/runs.sql

    @staticmethod
    def ended_after(moment_ms: int) -> Q:
        """Of the parts those that end later."""
        # no cut is longer than an hour
        return Q(cut_ms__gt=moment_ms - HOUR_MS, end_ms__gt=moment_ms)

    @staticmethod
    def overlapping(start_ms: int, end_ms: int) -> Q:
        """Of the parts those that overlap [start_ms, end_ms)."""
        return Run.ended_after(start_ms) & Q(cut_ms__lt=end_ms, start_ms__lt=end_ms)


class IdlePower(models.Model):
    """What a GPU draws while it does nothing, from when on it is judged by that, and where it is
    from. Never edited: the newest counts.
    """

    gpu = models.ForeignKey("inventory.GPU", on_delete=models.CASCADE, related_name="+")
    from_ms = models.BigIntegerField(
        help_text="windows that start before keep what they were judged by"
    )
    watts = models.FloatField()
    readings = models.PositiveIntegerField(
        default=0, help_text="windows that it was learned from; 0: an admin set it"
    )
    condition = _word(16, "free or quiet: what these windows were")
    first_ms = models.BigIntegerField(null=True, help_text="start of the first of them")
    last_ms = models.BigIntegerField(null=True, help_text="end of the last of them")
    set_by = _word(200, "the admin who set it")
    created_at = models.DateTimeField()


class NodeDay(models.Model):
    """How often the entries or runs of each hour of a node's UTC day were written anew: what was
    derived from them knows when it is old.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    versions = ArrayField(
        models.BigIntegerField(),
        size=HOURS,
        help_text="one number per UTC hour; it only ever grows",
    )
    version = models.GeneratedField(
        expression=Func(F("versions"), function="ledger_version"),
        output_field=models.BigIntegerField(),
        db_persist=True,
        help_text="all of them together: one number that grows with each",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "day"], name="one_row_per_node_and_day")
        ]
        # read by: sums of the fleet's days, which ask all nodes whether they are as new
        indexes = [models.Index(fields=["day"], include=["version"], name="node_day_by_day")]


class StateDay(models.Model):
    """A node's UTC day by GPU, hour and state (state_days.py); current while its versions are those
    of the NodeDay.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    versions = ArrayField(models.BigIntegerField(), size=HOURS)
    spent = models.BinaryField(
        help_text="zstd of GPU ids (int64), then milliseconds (uint32): GPUs x 24 x states by name"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "day"], name="one_state_day_per_node_and_day")
        ]


class HourCells(models.Model):
    """What the entries of a node's clock hour say in pieces of five minutes, of held GPUs
    (cell_states.py); kept while hours change.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    hour = models.DateTimeField()
    payload = models.BinaryField(
        help_text=(
            "zstd of columns (hour_cells.py): GPU and job ids (int64), then from when on and"
            " milliseconds (int32)"
        )
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "hour"], name="one_row_of_states_per_node_and_hour"
            )
        ]


class Posted(models.Model):
    """What posting last took for granted of a GPU, beyond its windows; where that changed, hours
    are posted again.
    """

    gpu = models.OneToOneField(
        "inventory.GPU", on_delete=models.CASCADE, primary_key=True, related_name="posted"
    )
    spans = models.JSONField(
        help_text="[start_ms, end_ms] of each span of capacity, or to where telemetry went for now"
    )
    outages = models.JSONField(
        default=list, help_text="[start_ms, end_ms or null, reason] of unavailability"
    )
