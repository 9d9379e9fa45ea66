"""What a GPU-hour costs, and from when to when."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import (
    ArrayField,
    BigIntegerRangeField,
    DateTimeRangeField,
    RangeOperators,
)
from django.db import models
from django.db.models import F, Func, Q, Value

from fleetwatch.lib.model_fields import text

PRICING_CLASSES = ("on_demand", "reserved", "spot", "owned")


def no_overlap(*subject: str, name: str, condition: Q | None = None) -> ExclusionConstraint:
    """No two rates of one subject (an id, or text) hold at the same moment.

    An id stands in it as the range [id, id], text as that of its 64-bit hash: a GiST index
    compares ranges without the extension btree_gist, which the embedded Postgres does not have.
    (Two names of one hash would refuse a rate, and never misprice one.)
    """
    validity = Func(
        F("valid_from"), F("valid_to"), function="tstzrange", output_field=DateTimeRangeField()
    )
    return ExclusionConstraint(
        name=name,
        expressions=[
            *((_only(field), RangeOperators.EQUAL) for field in subject),
            (validity, RangeOperators.OVERLAPS),
        ],
        condition=condition,
    )


def _only(field: str) -> Func:
    is_text = field in ("pool", "node_class", "region")
    value = (
        Func(F(field), Value(0), function="hashtextextended", output_field=models.BigIntegerField())
        if is_text
        else F(field)
    )
    return Func(
        value, value, Value("[]"), function="int8range", output_field=BigIntegerRangeField()
    )


def ends_after_it_starts(what: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")),
        name=f"{what}_ends_after_it_starts",
    )


def of_a_known_class(field: str, name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(**{f"{field}__in": ("", *PRICING_CLASSES)}), name=name
    )


class Rate(models.Model):
    """A price per GPU-hour, valid over [valid_from, valid_to), for one subject.

    A GPU's is stronger than its node's, that than the pool's, that than the GPU model's; a model's
    may be for nodes of one class or region alone and is then stronger than the model's for all
    (docs/money.md). Both ends lie on a UTC hour or the organisation's midnight: entries are cut
    there.
    """

    gpu = models.ForeignKey(
        "inventory.GPU",
        on_delete=models.CASCADE,
        null=True,
        related_name="rates",
        help_text="a physical GPU",
    )
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, null=True, related_name="rates"
    )
    pool = text(63, "as nodes' label `pool` says it")
    gpu_model = models.ForeignKey(
        "inventory.GPUModel", on_delete=models.CASCADE, null=True, related_name="rates"
    )
    node_class = text(16, "of a model's rate: only on nodes of this class")
    region = text(63, "of a model's rate: only on nodes of this region")
    pricing_class = text(16, "one of PRICING_CLASSES, or not said")
    price_per_gpu_hour = models.DecimalField(
        max_digits=18, decimal_places=6, help_text="in its currency"
    )
    currency = models.CharField(
        max_length=3,
        default="USD",
        help_text="ISO 4217; others than USD are converted by ExchangeRate",
    )
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = still valid")
    is_example = models.BooleanField(
        default=False, help_text="shipped list price; badged until replaced"
    )
    source = text(300)
    source_date = models.DateField(null=True)
    components = models.JSONField(
        default=list,
        help_text="of a computed price: name, dollars as text, how (tco.py); they sum to the price",
    )
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(gpu__isnull=False, node__isnull=True, pool="", gpu_model__isnull=True)
                | Q(gpu__isnull=True, node__isnull=False, pool="", gpu_model__isnull=True)
                | (Q(gpu__isnull=True, node__isnull=True, gpu_model__isnull=True) & ~Q(pool=""))
                | Q(gpu__isnull=True, node__isnull=True, pool="", gpu_model__isnull=False),
                name="a_rate_is_for_one_subject",
            ),
            models.CheckConstraint(
                condition=Q(gpu_model__isnull=False) | Q(node_class="", region=""),
                name="class_and_region_are_of_a_models_rate",
            ),
            of_a_known_class("node_class", "a_rate_is_for_a_known_class"),
            of_a_known_class("pricing_class", "a_rate_is_of_a_known_class"),
            models.CheckConstraint(
                condition=Q(price_per_gpu_hour__gte=0), name="a_rate_is_not_negative"
            ),
            ends_after_it_starts("a_rate"),
            no_overlap("gpu", name="one_rate_per_gpu_at_a_time", condition=Q(gpu__isnull=False)),
            no_overlap("node", name="one_rate_per_node_at_a_time", condition=Q(node__isnull=False)),
            no_overlap("pool", name="one_rate_per_pool_at_a_time", condition=~Q(pool="")),
            no_overlap(
                "gpu_model",
                "node_class",
                "region",
                name="one_rate_per_model_at_a_time",
                condition=Q(gpu_model__isnull=False),
            ),
        ]


class ExchangeRate(models.Model):
    """What one unit of a currency is in dollars, from a cut of the ledger on until the currency's
    next one begins.
    """

    currency = models.CharField(max_length=3)
    usd_per_unit = models.DecimalField(max_digits=18, decimal_places=8)
    valid_from = models.DateTimeField()
    source = text(300)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["currency", "valid_from"], name="one_exchange_rate_per_currency_and_moment"
            ),
            models.CheckConstraint(
                condition=Q(usd_per_unit__gt=0), name="an_exchange_rate_is_above_zero"
            ),
            models.CheckConstraint(condition=~Q(currency="USD"), name="dollars_are_not_exchanged"),
        ]


class Commitment(models.Model):
    """So many GPUs of a model paid for over [valid_from, valid_to), used or not.

    It prices nothing in the ledger, which rates do: it adds what was paid for GPUs that were not
    there (docs/money.md). Narrowed to nodes of one pool, class or region, as their labels say it.
    """

    name = models.CharField(max_length=100, help_text="the contract, for people")
    gpu_model = models.ForeignKey(
        "inventory.GPUModel", on_delete=models.PROTECT, related_name="commitments"
    )
    pool = text(63)
    node_class = text(16)
    region = text(63)
    gpus = models.PositiveIntegerField()
    price_per_gpu_hour = models.DecimalField(
        max_digits=18,
        decimal_places=6,
        null=True,
        help_text="in its currency; None = paid by the month",
    )
    amount_per_month = models.DecimalField(
        max_digits=24,
        decimal_places=6,
        null=True,
        help_text=(
            "for all of its GPUs, in its currency; part of a month = its share of the month's hours"
        ),
    )
    currency = models.CharField(
        max_length=3,
        default="USD",
        help_text="ISO 4217; others than USD are converted by ExchangeRate",
    )
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = open")
    source = text(300)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(gpus__gt=0), name="a_commitment_is_for_some_gpus"),
            models.CheckConstraint(
                condition=Q(price_per_gpu_hour__gte=0, amount_per_month__isnull=True)
                | Q(price_per_gpu_hour__isnull=True, amount_per_month__gte=0),
                name="a_commitment_has_one_price",
            ),
            of_a_known_class("node_class", "a_commitment_is_for_a_known_class"),
            ends_after_it_starts("a_commitment"),
        ]


class OwnerChange(models.Model):
    """A job that may be another owner's since a transaction: new, renamed, attributed anew, or
    deleted. Written by triggers (sql/note_owner_changes.sql), read by who keeps whose jobs are.

    Without a foreign key: a change of a job that is gone says that it is.
    """

    job_id = models.BigIntegerField()
    transaction_id = models.BigIntegerField(help_text="that made the change")
    seen_at = models.DateTimeField(null=True, help_text="since when at the latest all could see it")

    class Meta:
        indexes = [models.Index(fields=["transaction_id"], name="owner_change_by_transaction")]


class NodePlace(models.Model):
    """Pool, class and region of a node over [valid_from, valid_to), as its labels said; "" = they
    did not.

    The spans of a node follow each other from the beginning on without gaps: what labels say later
    changes nothing before.
    """

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="places")
    pool = text(63)
    node_class = text(16)
    region = text(63)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = still so")

    class Meta:
        constraints = [
            no_overlap("node", name="one_place_per_node_at_a_time"),
            models.UniqueConstraint(
                fields=["node"],
                condition=Q(valid_to__isnull=True),
                name="one_present_place_per_node",
            ),
        ]


class Region(models.Model):
    """What holds in the place that nodes name by their label `region`, from then on until its next
    row begins; None = not known.
    """

    name = models.CharField(max_length=63, blank=True, help_text='"" = nodes that name none')
    valid_from = models.DateTimeField()
    pue = models.DecimalField(
        max_digits=6, decimal_places=3, help_text="energy at the meter ÷ energy of the machines"
    )
    usd_per_kwh = models.DecimalField(max_digits=12, decimal_places=6, null=True)
    g_per_kwh = models.DecimalField(
        max_digits=10,
        decimal_places=3,
        null=True,
        help_text="grams of CO2 equivalents per kWh of the grid",
    )
    source = text(300)
    source_date = models.DateField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name", "valid_from"], name="one_row_per_region_and_moment"
            )
        ]


class GPURate(models.Model):
    """A view (sql/rates_in_force.sql): which rate holds for which GPU from when to when; most
    specific wins, spans disjoint.

    The price is in dollars: one in another currency is converted here, once and exactly, by the
    rate of exchange of its span.
    """

    pk = models.CompositePrimaryKey("gpu", "valid_from")
    gpu = models.ForeignKey("inventory.GPU", on_delete=models.DO_NOTHING, related_name="+")
    rate = models.ForeignKey(Rate, on_delete=models.DO_NOTHING, related_name="+")
    usd_per_gpu_hour = models.DecimalField(max_digits=36, decimal_places=14)
    is_example = models.BooleanField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "costs_gpurate"


class SummedDay(models.Model):
    """A node's day of GPU time and energy, summed over its hours, and of which state of the ledger
    and the inventory it speaks.

    It counts only while both still say the same: until then entries are read, so that no figure is
    ever old. Always derived, never edited.
    """

    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="+")
    start = models.DateTimeField(help_text="the organisation's midnight")
    until = models.DateTimeField(help_text="the day's end, or a clock hour within it")
    versions = ArrayField(
        models.BigIntegerField(),
        help_text="ledger.NodeDay's of each clock hour that [start, until) touches",
    )
    alike = models.CharField(
        max_length=32, help_text="digest of which GPUs of the node have one price"
    )
    spans = models.BinaryField(
        help_text="of each GPU, holder and kind of time, as state_spans.py packs it"
    )
    alike_spans = models.BinaryField(
        null=True,
        help_text="the same of GPUs of one price together, each under the one that stands for them;"
        " NULL = not summed yet",
    )
    total_spans = models.BinaryField(
        null=True, help_text="these of all holders together, under none; NULL = not summed yet"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "start"], name="one_sum_per_node_and_day")
        ]
        # read by: figures of the fleet, for the days of which there is no FleetDay
        indexes = [models.Index(fields=["start"], name="summed_day_by_start")]


class FleetDay(models.Model):
    """A day of GPU time and energy of all nodes together (fleet_days.py): what a figure of the
    fleet reads, in the form that tells apart no more than it asks for; by hour where it asks for
    hours, or for a part of the day.

    It counts only while the nodes' entries are those that it was summed from, and the GPUs that it
    puts together have one price and model.
    """

    start = models.DateTimeField(unique=True, help_text="the organisation's midnight")
    until = models.DateTimeField(help_text="and the next one")
    version = models.BigIntegerField(
        help_text="ledger.NodeDay's of all nodes and UTC days that it touches, together"
    )
    last_gpu_id = models.BigIntegerField(help_text="the newest GPU there was")
    alike = models.CharField(
        max_length=32,
        help_text="digest of which GPUs up to that one have one price and model, and how sums of"
        " them are packed",
    )
    job_spans = models.BinaryField(
        help_text="spans as narrow_columns.py packs the fields of state_spans.py: of each group of"
        " GPUs (under its first one), holder and kind of time"
    )
    total_spans = models.BinaryField(help_text="the same of all holders together, under none")
    node_spans = models.BinaryField(help_text="the same of each node by itself")
    gpu_spans = models.BinaryField(help_text="the same of each GPU by itself")
    hour_spans = models.BinaryField(
        help_text="what the entries say, by hour cut: an entry each, of each GPU and holder"
    )


class DayHours(models.Model):
    """GPU time of a node's summed day by cut of the ledger, over GPUs of one price; written and
    believed with its SummedDay.

    The arrays are of one length and in order: one place for each cut of which there are entries.
    """

    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    start = models.DateTimeField(help_text="the organisation's midnight")
    gpu = models.ForeignKey(
        "inventory.GPU",
        on_delete=models.CASCADE,
        related_name="+",
        help_text="one of the GPUs: all have its price",
        db_index=False,
    )
    cuts = ArrayField(models.DateTimeField())
    capacity_ms = ArrayField(models.BigIntegerField())
    held_ms = ArrayField(models.BigIntegerField(), help_text="of it, what a job held")
    unobserved_ms = ArrayField(models.BigIntegerField(), help_text="of it, what nobody saw")

    class Meta:
        # read by: what commitments cover, a month's invoices beside its ledger
        indexes = [models.Index(fields=["node", "start"], name="day_hours_by_node")]


class MappingRule(models.Model):
    """Jobs that it matches belong to its team, project and cost centre over [valid_from, valid_to);
    mapping.py says the order.

    All of its conditions have to hold; "" = any. `*` in one stands for any characters, also none.
    Both ends lie on a UTC hour or the organisation's midnight: entries are cut there.
    """

    priority = models.PositiveSmallIntegerField(
        default=100, help_text="the smallest is asked first"
    )
    user = text(128)
    account = text(128)
    namespace = text(128, "of a Kubernetes job")
    partition = text(128, "a job's label `partition`")
    label = text(128, "a label's name, exactly")
    label_value = text(128)
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, related_name="mapping_rules"
    )
    project = text(100)
    cost_centre = text(100)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = still valid")
    note = text(300)
    created_at = models.DateTimeField()
    created_by = text(200)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(user="", account="", namespace="", partition="", label=""),
                name="a_mapping_rule_has_a_condition",
            ),
            models.CheckConstraint(
                condition=Q(label="", label_value="") | ~Q(label="") & ~Q(label_value=""),
                name="a_label_has_a_value",
            ),
            models.CheckConstraint(
                condition=Q(team__isnull=False) | ~Q(project="", cost_centre=""),
                name="a_mapping_rule_gives_something",
            ),
            ends_after_it_starts("a_mapping_rule"),
        ]


class Attribution(models.Model):
    """Whose a job's time is over [valid_from, valid_to), by which rules; derived from rules and
    jobs (sql/attribute_jobs.sql).

    A job has either none (its account's team has all of its time) or rows that follow each other
    from the beginning on without gaps. What lies in a closed month stays as it was.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+", db_index=False)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, help_text="None = from then on")
    team = models.ForeignKey(
        "accounts.Team",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
        help_text="a rule's, or the account's",
    )
    project = text(100)
    cost_centre = text(100)
    is_named = models.BooleanField(
        help_text=(
            "whether the job names a user or an account: why it has no team, project or cost centre"
        )
    )
    team_rule = models.ForeignKey(
        MappingRule,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
        help_text="None = its account",
    )
    project_rule = models.ForeignKey(
        MappingRule, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    cost_centre_rule = models.ForeignKey(
        MappingRule, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )

    class Meta:
        constraints = [
            # read by: every figure by team, project or cost centre, which joins by job
            models.UniqueConstraint(
                fields=["job", "valid_from"], name="one_attribution_per_job_and_moment"
            ),
        ]
