"""Reports that were computed: stored and never overwritten, so that what was sent can be read
again. And the queue that computes them.
"""

from decimal import Decimal
from functools import partial

from django.db import models
from django.db.models import Q

from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.model_fields import text

# of a fleet's month, to the micro-dollar
_Dollars = partial(models.DecimalField, max_digits=24, decimal_places=6)


class Report(models.Model):
    """One version of one computed report over [start, end).

    What changed is a new version; the old one stays.
    """

    kind = models.CharField(max_length=32, help_text="digest.KINDS, statement, fleet")
    subject = text(
        100, "the team's slug, (none) for jobs without one; fleet: empty; a person's digest: its id"
    )
    start = models.DateTimeField()
    end = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)
    computed_at = models.DateTimeField()
    inputs = text(64, "digest of what it was first computed from (inputs.py)")
    cost_usd = _Dollars(null=True, help_text="the total, in micro-dollars")
    content = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject", "start", "version"], name="one_report_per_version"
            )
        ]


class StatementApproval(models.Model):
    """That somebody approved a version of a statement: a new version is a new question."""

    report = models.OneToOneField(Report, on_delete=models.PROTECT, related_name="approval")
    approved_at = models.DateTimeField()
    approved_by = models.CharField(max_length=150)
    note = text(300)


class StatementRecipient(models.Model):
    """To whom a team's statement goes when a month is over."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    channel = models.ForeignKey("notify.Channel", on_delete=models.CASCADE, related_name="+")
    address = text(254, "a person's, as the channel knows it; empty = the channel's own")
    added_at = models.DateTimeField()
    added_by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "channel", "address"], name="a_statement_goes_to_each_once"
            )
        ]


class MonthRun(models.Model):
    """One computation of all reports of a month: asked for, then planned into parts, then done."""

    class State(models.TextChoices):
        WAITING = "waiting"
        COMPUTING = "computing"
        DONE = "done"
        STALE = "stale"  # the ledger changed meanwhile: another run took over
        FAILED = "failed"
        STOPPED = "stopped"  # by a person: what was computed stays

    month = models.CharField(max_length=7, help_text="2026-10")
    start = models.DateTimeField()
    end = models.DateTimeField()
    previous_start = models.DateTimeField(help_text="what it is compared with")
    previous_end = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    asked_at = models.DateTimeField()
    asked_by = text(150, "a person's name; empty = the clock")
    planned_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    inputs = text(64)
    free_capacity = models.CharField(
        max_length=16,
        default="own",
        help_text="how it is told (statement_choices.py), as chosen when this was planned",
    )
    restarts = models.PositiveIntegerField(
        default=0, help_text="how often the ledger changed while it was computed"
    )
    note = text(300, "for people: why it failed, or had nothing to do")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["month"],
                condition=Q(state__in=("waiting", "computing")),
                name="one_open_run_per_month",
            )
        ]

    @property
    def interval(self) -> Interval:
        return Interval(self.start, self.end)

    @property
    def previous(self) -> Interval:
        return Interval(self.previous_start, self.previous_end)


class StatementChoice(models.Model):
    """The one row of what people chose for all statements; none = nobody chose."""

    free_capacity = models.CharField(max_length=16, default="own", help_text="one of choices.WAYS")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(pk=1), name="only_one_choice_for_statements")
        ]


class ReportPart(models.Model):
    """One report to compute of a run. The row is the queue: whoever locks it computes it."""

    run = models.ForeignKey(MonthRun, on_delete=models.CASCADE, related_name="parts")
    kind = models.CharField(max_length=32)
    subject = text(100)
    cost_usd = _Dollars(help_text="its part of the fleet's micro-dollars")
    previous_usd = _Dollars(null=True, help_text="None = nothing to compare with")
    free_usd = _Dollars(
        null=True,
        help_text="its part of what stood free; fleet: what of it no team gets; None = not spread",
    )
    handed_out_at = models.DateTimeField(
        null=True, help_text="given to Celery; again, where nothing came of it"
    )
    done_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    report = models.ForeignKey(Report, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind", "subject"], name="one_part_per_run_and_subject"
            )
        ]


class Invoice(models.Model):
    """What a provider billed for a month, as its file said.

    One stands per month and issuer: another replaces it knowingly.
    """

    month = models.CharField(max_length=7, help_text="2026-10")
    issuer = text(100, "who sent it, as the file names it")
    digest = models.CharField(
        max_length=64, help_text="SHA-256 of the file: the same one is taken once"
    )
    form = models.CharField(max_length=16, help_text="csv, focus")
    file_name = text(200)
    currency = models.CharField(max_length=3, default="USD")
    usd_per_unit = models.DecimalField(
        max_digits=18, decimal_places=8, help_text="of the currency, at the month's beginning"
    )
    rows = models.PositiveIntegerField(help_text="rows of the file; rows of one kind are one line")
    imported_at = models.DateTimeField()
    imported_by = text(150)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["month", "issuer"], name="one_invoice_per_month_and_issuer"
            )
        ]


class InvoiceLine(models.Model):
    """The rows of an invoice that name the same SKU, region, kind of charge and GPU model,
    summed.
    """

    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="lines")
    line = models.PositiveIntegerField(help_text="of the file, where its first row stands")
    sku = text(200)
    region = text(63)
    category = models.CharField(
        max_length=16,
        default="Usage",
        help_text="as FOCUS: Usage, Purchase, Tax, Credit, Adjustment",
    )
    gpu_model = text(100, "as the file names it; empty = by its SKU (InvoiceSKU)")
    description = text(300)
    hours = models.DecimalField(
        max_digits=30, decimal_places=9, null=True, help_text="as billed; None = not by the hour"
    )
    gpus_per_hour = models.PositiveIntegerField(
        null=True, help_text="GPUs that one billed hour is of; None = by its SKU"
    )
    amount = models.DecimalField(
        max_digits=36, decimal_places=12, help_text="in the invoice's currency"
    )


class InvoiceSKU(models.Model):
    """What a provider's SKU is: a GPU model, and how many of it one billed hour is of."""

    sku = models.CharField(max_length=200, unique=True)
    gpu_model = models.ForeignKey("inventory.GPUModel", on_delete=models.CASCADE, related_name="+")
    gpus_per_hour = models.PositiveIntegerField(default=1)


class InvoiceAdjustment(models.Model):
    """A line of a month's reconciliation that somebody booked: dollars alone, signed, beside the
    ledger's and never spread.

    It is a line of the month `booked_in`: the invoice's, or the running one where that is closed.
    """

    month = models.CharField(max_length=7, help_text="the invoice's")
    booked_in = models.CharField(max_length=7, help_text="the month whose reports have the line")
    key = models.CharField(
        max_length=300, help_text="which line of the reconciliation (reconciling.py)"
    )
    label = models.CharField(max_length=300)
    hours_usd = _Dollars()
    unobserved_usd = _Dollars()
    rate_usd = _Dollars()
    other_usd = _Dollars(help_text="of lines that are not matched")
    reason = models.CharField(max_length=300)
    booked_at = models.DateTimeField()
    booked_by = models.CharField(max_length=150)
    withdrawn_at = models.DateTimeField(null=True)
    withdrawn_by = text(150)

    class Meta:
        indexes = [
            # read by: the month's reports
            models.Index(fields=["booked_in"], name="invoice_booking_by_month"),
            # read by: the month's reconciliation, for which booked counts as said
            models.Index(fields=["month"], name="invoice_booking_by_invoice"),
        ]

    @property
    def amount_usd(self) -> Decimal:
        return self.hours_usd + self.unobserved_usd + self.rate_usd + self.other_usd
