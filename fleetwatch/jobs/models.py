"""Jobs, and who held which GPU from when to when: unions of what all batches asserted."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Coalesce

from fleetwatch.lib.model_fields import text
from fleetwatch.lib.multirange import Int8MultiRangeField


class Replaced(models.Func):
    """A text in which what matches the pattern is replaced."""

    function = "regexp_replace"


class Job(models.Model):
    """One job of a scheduler, container or process: what is believed of its records (records.py).

    Its key is what its scheduler calls it, `scheduler/cluster/id`; where nodes name several owners,
    they hold several jobs, and all but one have a number after their key.
    """

    class Kind(models.TextChoices):
        BATCH = "batch"
        INTERACTIVE = "interactive"
        SERVICE = "service"

    key = models.CharField(max_length=410, unique=True)
    said_key = models.GeneratedField(
        expression=Replaced(models.F("key"), models.Value("~[0-9]+$"), models.Value("")),
        output_field=models.CharField(max_length=400),
        db_persist=True,
        help_text="the key without its number",
    )
    scheduler = text(64)
    cluster = text(128)
    external_id = text(200)
    name = text(300)
    user = text(128, "as the scheduler names the owner; no account of ours")
    account = text(128)
    team = models.ForeignKey(
        "accounts.Team",
        on_delete=models.SET_NULL,
        null=True,
        related_name="jobs",
        help_text="that its account names; whose its time is, costs.attribution says",
    )
    kind = models.CharField(max_length=16, default=Kind.BATCH)
    state = text(32)
    submit_ms = models.BigIntegerField(null=True)
    start_ms = models.BigIntegerField(null=True)
    end_ms = models.BigIntegerField(null=True)
    restarts = models.PositiveIntegerField(default=0)
    labels = models.JSONField(default=dict)

    has_pseudonym = False  # whether the reader is told of it under one (figures.others_names)

    @property
    def own_key(self) -> str:
        """What means this job alone, also where others share its key (selectors.job)."""
        return f"{self.key}~1" if self.key == self.said_key else self.key

    class Meta:
        indexes = [
            # read by: store and selectors, the jobs that share a key
            models.Index(fields=["said_key"], name="jobs_by_said_key"),
            # read by: selectors.held_by; runs of one owner and name, however many jobs there are
            models.Index(
                fields=["user", "name"],
                include=["id", "scheduler", "cluster", "end_ms"],
                name="jobs_by_user_and_name",
            ),
            # read by: selectors.clusters
            models.Index(fields=["cluster"], name="jobs_by_cluster"),
            # read by: selectors.waits, the jobs that began in a day
            models.Index(fields=["start_ms"], name="jobs_by_start"),
            # read by: selectors.pending_jobs
            models.Index(
                fields=["submit_ms"],
                condition=models.Q(state="PENDING", start_ms=None),
                name="jobs_that_wait",
            ),
            # read by: outcomes.running_ids, of each look at what runs now
            models.Index(
                fields=["id"],
                condition=models.Q(state="RUNNING", end_ms=None),
                name="jobs_that_run",
            ),
        ]


class JobRecord(models.Model):
    """The newest that one node says of a user's job with one voice; by key, because what nobody may
    say makes no job.
    """

    key = models.CharField(max_length=400)
    user = models.CharField(
        max_length=128,
        blank=True,
        default="",
        help_text='whose it says the job is; "" = it names nobody',
    )
    job_id = models.BigIntegerField(
        null=True, help_text="the job that it is of; null = it may not speak"
    )
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, null=True, db_index=False, related_name="+"
    )
    voice = models.PositiveSmallIntegerField(help_text="records.Voice")
    as_of_ms = models.BigIntegerField(help_text="until when the batch speaks that said it")
    boot_start_ms = models.BigIntegerField()
    sequence = models.BigIntegerField()
    facts = models.JSONField(help_text="records.JobFacts")
    held_at = models.DateTimeField(
        null=True,
        help_text="when the hub first heard that the node holds the job; null = it never did",
    )
    held_until_ms = models.BigIntegerField(
        null=True, help_text="end of its hold, as far as it is known"
    )
    repeated_from_ms = models.BigIntegerField(
        null=True,
        help_text="Node.repeated_from_ms while the node's batches repeat it; None = they do not",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["key", "node", "voice", "user"],
                nulls_distinct=False,
                name="one_record_per_word",
            )
        ]
        # read by store.drop_unheard. It holds nothing that a batch changes, so that rows are
        # updated in place
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(held_at=None, voice__lt=2),
                name="records_nobody_held",
            ),
            # read by: repeats.settle
            models.Index(
                fields=["node"],
                condition=models.Q(repeated_from_ms__isnull=False),
                name="records_repeated",
            ),
        ]


class JobChange(models.Model):
    """Something that one node newly said of a job, as it was heard: for people.

    Of a job the newest are kept.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="changes")
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.SET_NULL, null=True, db_index=False, related_name="+"
    )
    at = models.DateTimeField()
    voice = models.PositiveSmallIntegerField(help_text="records.Voice")
    facts = models.JSONField(help_text="what it said otherwise than it was believed until then")
    refused = models.JSONField(help_text="names of those facts that were not taken")


class ChangedJob(models.Model):
    """A mark: a job is new, or names another owner than before. Appended with the job, deleted by
    id by who works out whose it is.

    Without a foreign key: a mark of a job that is gone says nothing, and a batch need not check it.
    """

    job_id = models.BigIntegerField()
    is_new = models.BooleanField()
    former_team_id = models.BigIntegerField(
        null=True, help_text="that its account named until then"
    )
    was_named = models.BooleanField(
        default=False, help_text="whether it named a user or an account until then"
    )


# No hold of an allocation ends later; of one that its node's batches may repeat nobody knows.
HELD_UNTIL = Coalesce(
    models.Case(
        models.When(
            repeated_from_ms__isnull=True,
            then=models.Func("held", function="upper", output_field=models.BigIntegerField()),
        )
    ),
    2**63 - 1,
)


class Allocation(models.Model):
    """A job's hold on a GPU by one source: `held` is what is charged, the union of what batches
    asserted, cut at the ends known of it. What its node's batches repeat is not among it yet: who
    wants to know reads Hold.
    """

    gpu = models.ForeignKey(
        "inventory.GPU",
        on_delete=models.CASCADE,
        related_name="allocations",
        db_index=False,  # the constraint's begins with it
    )
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="allocations")
    source = models.CharField(max_length=32)
    share = models.FloatField(null=True, help_text="granted share of the GPU; None = not known")
    asserted = Int8MultiRangeField(help_text="milliseconds, half-open: the union over all batches")
    starts = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="of its runs, ascending: a requeued job has several",
    )
    ended = Int8MultiRangeField(
        default=list, help_text="from each known end (RunEnd) to the start of the next run"
    )
    held = models.GeneratedField(
        expression=models.ExpressionWrapper(
            models.F("asserted") - models.F("ended"), output_field=Int8MultiRangeField()
        ),
        output_field=Int8MultiRangeField(),
        db_persist=True,
    )
    repeated_from_ms = models.BigIntegerField(
        null=True,
        help_text="Node.repeated_from_ms while the node's batches repeat it; None = they do not",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu", "job", "source", "share"],
                nulls_distinct=False,
                name="one_allocation_per_gpu_job_source_share",
            )
        ]
        indexes = [
            # read by: repeats.settle
            models.Index(
                fields=["gpu"],
                condition=models.Q(repeated_from_ms__isnull=False),
                name="allocations_repeated",
            ),
            # read by: jobs_hold.until_ms, so that who asks of a day reads no older holds
            models.Index(HELD_UNTIL, name="held_until"),
        ]


class Hold(models.Model):
    """A row of the view jobs_hold: when an allocation held its GPU, as far as its node spoke."""

    gpu = models.ForeignKey("inventory.GPU", on_delete=models.DO_NOTHING, related_name="holds")
    job = models.ForeignKey(Job, on_delete=models.DO_NOTHING, related_name="holds")
    source = models.CharField(max_length=32)
    share = models.FloatField(null=True)
    held = Int8MultiRangeField()

    class Meta:
        managed = False
        db_table = "jobs_hold"


class RunEnd(models.Model):
    """The end of a run of a job as it was told last: of the whole job on one node or on all, or of
    its hold on one GPU.

    Last: by (is_cluster, as_of_ms, boot_start_ms, sequence), of the batch as a job's facts.
    """

    # no index of its own: the constraint's begins with it
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="run_ends", db_index=False)
    node = models.ForeignKey(
        "inventory.Node",
        on_delete=models.CASCADE,
        null=True,
        db_index=False,
        related_name="+",
        help_text="on whose GPUs; None: on all",
    )
    gpu = models.ForeignKey(
        "inventory.GPU",
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="None: of the whole job",
    )
    source = text(32, "of the hold on the GPU")
    start_ms = models.BigIntegerField(null=True, help_text="of the run; None = not known")
    end_ms = models.BigIntegerField()
    is_cluster = models.BooleanField(default=False, help_text="told by the books of the cluster")
    as_of_ms = models.BigIntegerField(help_text="until when the batch spoke")
    boot_start_ms = models.BigIntegerField()
    sequence = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "node", "gpu", "source", "start_ms"],
                nulls_distinct=False,
                name="one_end_per_run_of_a_job_or_hold",
            ),
            models.CheckConstraint(
                condition=models.Q(start_ms=None) | models.Q(end_ms__gte=models.F("start_ms")),
                name="a_run_ends_not_before_its_start",
            ),
        ]


class SourceReport(models.Model):
    """When a job source of a node answered (`ok`) and when it did not, and why: of that time
    nothing is concluded. With what the node's batches repeat: the view jobs_answer.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="source_reports"
    )
    kind = models.CharField(max_length=32)
    ok = models.BooleanField()
    why = text(300, "that it did not answer; of the newest reasons only")
    asserted = Int8MultiRangeField(help_text="milliseconds, half-open")
    repeated_from_ms = models.BigIntegerField(
        null=True,
        help_text="Node.repeated_from_ms while the node's batches repeat it; None = they do not",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "kind", "ok", "why"], name="one_report_per_node_kind_ok_why"
            )
        ]


class GPUProcess(models.Model):
    """The processes last seen on a GPU, for people; the ledger never reads them."""

    gpu = models.ForeignKey("inventory.GPU", on_delete=models.CASCADE, related_name="processes")
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True)
    pid = models.BigIntegerField()
    started_ms = models.BigIntegerField(null=True)
    user = text(128)
    name = text(300)
    state = text(8)
    memory_bytes = models.BigIntegerField(null=True)
    seen_ms = models.BigIntegerField()


class JobLink(models.Model):
    """A way from each job's page to where its logs or its experiment are (job_links.py)."""

    title = models.CharField(max_length=40, unique=True)
    template = models.CharField(max_length=1000, help_text="address_templates.py")
