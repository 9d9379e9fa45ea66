"""A closed month with adjustments shows both figures, and why."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.ledger.models import Adjustment, ClosedMonth
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.dashboard import factories
from tests.markup import tight

pytestmark = pytest.mark.django_db

START, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
OCTOBER = Interval(START, END)
AT = datetime(2026, 10, 5, 9, tzinfo=UTC)


@pytest.fixture
def closed(admin):
    """An hour at $2 in October, closed; another hour came late."""
    gpu = factories.gpu(factories.node(), hours=24 * 60)
    factories.rate("2.00")
    entry = factories.entry(gpu, hours_ago=0, now=AT)
    entry.save()
    ClosedMonth.objects.create(
        month=date(2026, 10, 1),
        start=START,
        end=END,
        policy=factories.policy(),
        closed_at=END,
        closed_by="ann",
    )
    Adjustment.objects.create(
        node=gpu.node, gpu=gpu, start=AT.replace(hour=10), state="useful",
        policy=factories.policy(), gpu_ms=HOUR_MS,
        cause="late data", booked_at=factories.NOW,
    )  # fmt: skip
    return admin


@pytest.mark.parametrize("page", ["/", "/waste"])
def test_both_figures_and_the_reason_are_said(closed, page):
    told = " ".join(closed.get(f"{page}?from=2026-10-01&to=2026-11-01").content.decode().split())

    assert "October 2026 is closed:" in told
    assert (
        "$2.00</span>, is as it was closed. Adjustments since: +<span"
        ' title="$2.000000">$2.00</span> late data.' in told
    )
    assert 'In total <span title="$4.000000">$4.00</span>' in told


@pytest.mark.parametrize("page", ["/", "/waste"])
def test_what_turned_out_to_be_wasted_is_said_though_it_costs_the_same(closed, page):
    """An hour at $2 that nobody had observed was idle: no dollar more, $2 wasted."""
    late = Adjustment.objects.get()
    late.delete()
    for state, tier, gpu_ms in (("idle", "certain", HOUR_MS), ("unobserved", "", -HOUR_MS)):
        late.pk, late.state, late.tier, late.gpu_ms = None, state, tier, gpu_ms
        late.save(force_insert=True)

    told = " ".join(closed.get(f"{page}?from=2026-10-01&to=2026-11-01").content.decode().split())

    assert 'Of them +<span title="$2.000000">$2.00</span> are wasted' in told


def test_what_is_not_wasted_is_not_said_to_be(closed):
    told = closed.get("/?from=2026-10-01&to=2026-11-01").content.decode()

    assert 'id="adjusted"' in told
    assert "are wasted" not in told


def test_of_a_period_without_closed_hours_or_without_adjustments_nothing_is_said(closed):
    assert 'id="adjusted"' not in closed.get("/").content.decode()
    assert adjusted(Interval(START, AT), cost_usd=None) is None
    Adjustment.objects.all().delete()
    assert adjusted(OCTOBER, cost_usd=None) is None


@pytest.mark.parametrize(
    ("start", "end", "dollars"),
    [("10:00", "10:30", 1), ("10:30", "11:00", 1), ("10:15", "10:30", 0.5), ("09:30", "11:30", 2)],
)
def test_of_a_part_of_an_hour_its_adjustments_count_in_part(closed, start, end, dollars):
    ends = [datetime.fromisoformat(f"2026-10-05T{clock}Z") for clock in (start, end)]

    found = adjusted(Interval(*ends), cost_usd=Decimal(0))

    assert found.change_usd == Decimal(str(dollars))


def test_the_invoices_page_says_what_of_its_ledger_came_after_closing(closed):
    file = SimpleUploadedFile("bill.csv", b"sku,gpu_hours,amount\np5,2,5\n")
    closed.post("/reports/2026-10/invoice/import", {"file": file})
    closed.post("/reports/2026-10/invoice/sku", {"sku": "p5", "gpu_model": "H100 SXM", "gpus": "1"})

    told = " ".join(closed.get("/reports/2026-10/invoice").content.decode().split())

    assert '<td class="num">$4.00</td>' in tight(told).partition("Ledger</th>")[2]
    assert (
        '<span title="$2.000000">$2.00</span> as the month was closed, +<span'
        ' title="$2.000000">$2.00</span> late data since' in told
    )
