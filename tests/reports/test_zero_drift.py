"""From windows to what was paid: random fleets with everything at once, and not a micro-dollar is
lost or counted twice.
"""

import csv
import io
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import call_command

from fleetwatch.costs.day_sums import sum_days
from fleetwatch.costs.mapping.attribution import attribute_changed
from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.finance import bookings
from fleetwatch.finance.committing import commit
from fleetwatch.finance.invoices import import_invoice
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.inventory.models import GPUModel, Node
from fleetwatch.ledger import services
from fleetwatch.ledger.models import Adjustment
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.reports import download
from fleetwatch.reports.models import Report
from tests.ledger.fleet import BUSY, EMPTY, HALF, QUIET, T0, Sender, a_job, held, post
from tests.reports.factories import computed, newest

pytestmark = pytest.mark.django_db

NOVEMBER, DECEMBER = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
THEN, NOW = DECEMBER + timedelta(hours=12), datetime(2027, 1, 2, 12, tzinfo=UTC)
HOURS, GPUS = 5, 2
JOBS = [
    a_job("slurm/della/1", account="nlp"),
    a_job("slurm/della/2", user="bob"),
    a_job("slurm/della/3", user="", account=""),
]


def an_hour(chance, sender, hour):
    """What a node tells of one hour: each stretch something else, or nothing; some GPUs held, by
    one job or by two.
    """
    start = T0 + hour * HOUR_MS
    says = [
        said
        for _ in range(6)
        for said in [chance.choice([BUSY, QUIET, QUIET, HALF, EMPTY, None])] * 10
    ]
    holds = [(gpu, job) for gpu in range(GPUS) for job in range(len(JOBS)) if chance.random() < 0.4]
    allocations = [
        held(gpu, job, start + chance.randrange(HOUR_MS // 2), start + HOUR_MS)
        for gpu, job in holds
    ]
    return sender.batch(start, *says, jobs=JOBS, allocations=allocations)


def priced(chance):
    """A rate of the model, and one of a node from a full hour on."""
    amount = Decimal(chance.randrange(1, 9_999_999)) / 10**6
    model, node = GPUModel.objects.get(), Node.objects.order_by("name")[0]
    Rate.objects.create(
        gpu_model=model, price_per_gpu_hour=amount, valid_from=NOVEMBER, created_at=NOVEMBER
    )
    Rate.objects.create(
        node=node,
        price_per_gpu_hour=amount / 3,
        valid_from=from_ms(T0 + 2 * HOUR_MS),
        created_at=NOVEMBER,
    )
    return model


def mapped(chance):
    for gives in (
        Gives(team="vision", project="Apollo"),
        Gives(cost_centre="4711"),
        Gives(team="audit"),
    ):
        asks = Conditions(user=chance.choice(["ann", "bob", "*"]))
        since = from_ms(T0 + chance.randrange(HOURS) * HOUR_MS)
        add_rule(Terms(asks, gives, valid_from=since, priority=chance.randrange(1, 9)), now=THEN)


def billed(chance, model):
    """The provider's file for November; all that differs is booked."""
    hours, amount = chance.randrange(1, 40), chance.randrange(1, 200)
    content = f"gpu_model,gpu_hours,description,amount\n{model.name},{hours},,{amount}.37\n,,support,3.141593\n"
    import_invoice(content.encode(), "2026-11", now=THEN)
    found = reconciliation("2026-11", now=THEN)
    if keys := {line.key for line in found.lines if line.is_open}:
        bookings.book("2026-11", keys, seen=found.fingerprint, reason="checked", by="ann", now=THEN)
    return Decimal(f"{amount}.37") + Decimal("3.141593")


def balances():
    """Whether check_ledger says so."""
    out = StringIO()
    try:
        call_command("check_ledger", stdout=out, stderr=StringIO())
    except SystemExit:
        return out.getvalue()
    return True


def focus_usd(report):
    return sum(
        Decimal(row["BilledCost"]) for row in csv.DictReader(io.StringIO(download.focus(report)))
    )


def conserved(fleet, statements, month):
    """The month's lines sum to the fleet's cost by the ledger, and with what stands beside it to
    what was paid.
    """
    lines = [line for each in statements for line in each.content["lines"]] + fleet.content[
        "own_lines"
    ]
    assert (
        sum(Decimal(line["cost_usd"]) for line in lines)
        == fleet.cost_usd
        == pricing.usd(costs.totals(month).cost_usd)
    )
    assert sum(line["gpu_ms"] for line in lines) == costs.totals(month).capacity_ms
    for owner in ("projects", "cost_centres"):
        if told := fleet.content[owner]:
            assert sum(Decimal(line["cost_usd"]) for line in told) == sum(
                each.cost_usd for each in statements
            )
    beside = [*fleet.content["adjustments"], *fleet.content["invoice_lines"]]
    missing = [Decimal(line["missing_usd"]) for line in fleet.content["commitments"]]
    paid = fleet.cost_usd + sum(Decimal(line["cost_usd"]) for line in beside) + sum(missing)
    assert paid == Decimal(fleet.content["paid_usd"]) == focus_usd(fleet)


@pytest.mark.parametrize("seed", range(2))
def test_everything_at_once_sums_to_the_fleets_cost_and_to_what_was_paid(seed):
    chance = random.Random(seed)
    senders = [Sender(node, gpus=GPUS) for node in ("n1", "n2")]
    batches = [an_hour(chance, sender, hour) for sender in senders for hour in range(HOURS)]
    chance.shuffle(batches)
    late, after_the_close, *in_time = batches
    post(*in_time, now=THEN)
    model = priced(chance)
    mapped(chance)
    attribute_changed()
    services.set_policy(Policy(idle_batch_s=600), now=THEN)
    commit(
        Commitment(
            gpu_model=model,
            gpus=5,
            name="17",
            valid_from=from_ms(T0),
            valid_to=from_ms(T0 + 8 * HOUR_MS),
            price_per_gpu_hour=Decimal("1.234567"),
        ),
        now=THEN,
    )
    sum_days(THEN, 100)
    post(late, now=THEN)
    attribute_changed()
    invoice_usd = billed(chance, model)

    computed("2026-11", now=THEN)

    fleet, month = newest(), Interval(NOVEMBER, DECEMBER)
    conserved(fleet, list(Report.objects.filter(kind="statement")), month)
    assert Decimal(fleet.content["paid_usd"]) == invoice_usd  # all that differed was booked
    assert balances() is True

    closing.close_month(date(2026, 11, 1), by="ann", now=THEN)
    post(after_the_close, now=THEN)
    before = costs.totals(month)
    computed("2026-12", now=NOW)

    december = Report.objects.get(kind="fleet", start=DECEMBER)
    assert Adjustment.objects.exists()
    assert costs.totals(month) == before
    conserved(
        december,
        list(Report.objects.filter(kind="statement", start=DECEMBER)),
        Interval(DECEMBER, datetime(2027, 1, 1, tzinfo=UTC)),
    )
    assert balances() is True


def test_a_line_that_was_changed_is_found():
    post(an_hour(random.Random(7), Sender(gpus=GPUS), 0), now=THEN)
    priced(random.Random(7))
    computed("2026-11", now=THEN)
    fleet = newest()
    fleet.content["own_lines"][0]["cost_usd"] = (
        f"{Decimal(fleet.content['own_lines'][0]['cost_usd']) + Decimal('0.000001'):f}"
    )
    fleet.content["paid_usd"] = "1"

    fleet.save(update_fields=["content"])

    found = balances()
    assert (
        "reports of 2026-11: statements and own lines have 0.000001 dollars more than the fleet"
        in found
    )
    assert "reports of 2026-11: the lines have" in found
