"""Commitments in the rate book: what can be committed to, and what of it the ledger shows."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.models import Commitment
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.committing import commit, end_commitment, withdraw_commitment
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import ClosedMonth, Policy
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR, HOUR_MS, LONG_AGO, a_gpu, a_job, a_place, a_rate, an_entry

pytestmark = pytest.mark.django_db
H = timedelta(hours=1)
NOW = HOUR + timedelta(days=40)
ONE_HOUR = Interval(HOUR, HOUR + H)
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


def a_commitment(gpus=2, usd="2", *, model="H100 SXM", valid_from=NOVEMBER, **fields):
    product = GPUModel.objects.get_or_create(name=model)[0]
    prices = {} if "amount_per_month" in fields else {"price_per_gpu_hour": Decimal(usd)}
    return commit(
        Commitment(
            gpu_model=product,
            gpus=gpus,
            name="contract 17",
            valid_from=valid_from,
            **prices | fields,
        ),
        now=HOUR,
    )


def the_line(interval=ONE_HOUR):
    [(_, line)] = coverage(interval, now=NOW).lines
    return line


def test_hours_that_were_committed_and_not_there_are_dollars_beside_the_ledger():
    gpu = a_gpu()
    a_rate("2", gpu=gpu)
    an_entry(gpu, job=a_job())
    an_entry(gpu, "free", start=HOUR + H)
    a_commitment(2)

    line = the_line(Interval(HOUR, HOUR + 2 * H))

    assert (line.used_ms, line.unheld_ms, line.missing_ms) == (HOUR_MS, HOUR_MS, 2 * HOUR_MS)
    assert (line.missing_usd, line.rate_book_usd, line.rate_book_differs_usd) == (
        Decimal(4),
        Decimal(4),
        0,
    )


def test_only_nodes_of_its_class_region_and_pool_count():
    for node, region in (("gpu-01", "eu"), ("gpu-02", "us")):
        an_entry(a_gpu(node=node), job=a_job())
        a_place(node, node_class="reserved", region=region)
    a_commitment(1, region="eu", node_class="reserved")
    a_commitment(1, region="eu", pool="train")

    lines = {each.pool: line for each, line in coverage(Interval(HOUR, HOUR + H), now=NOW).lines}

    assert lines[""].used_ms == HOUR_MS
    assert lines["train"].missing_ms == HOUR_MS


def test_an_instance_counts_as_its_part_of_the_gpu():
    whole = a_gpu()
    part = a_gpu(parent=whole, model=None)
    an_entry(part, gpu_ms=HOUR_MS // 4, job=a_job())
    an_entry(whole, "free", gpu_ms=HOUR_MS * 3 // 4)
    a_commitment(1)

    assert (the_line().used_ms, the_line().unheld_ms, the_line().missing_ms) == (
        HOUR_MS // 4,
        HOUR_MS * 3 // 4,
        0,
    )


def test_before_the_ledgers_first_hour_and_after_what_is_posted_nothing_is_said_to_be_missing():
    an_entry(a_gpu(), job=a_job())
    an_entry(a_gpu(), job=a_job(), start=HOUR + H)
    a_commitment(1)
    now = HOUR + 2 * H + timedelta(minutes=5)

    found = coverage(Interval(HOUR - 5 * H, HOUR + 5 * H), now=now)

    # the hour to 11:00 is posted within its next ten minutes
    assert found.interval == Interval(HOUR, HOUR + H)
    # before anything was seen: neither delivered nor missing
    assert list(found.before_ms.values()) == [5 * HOUR_MS]
    assert coverage(Interval(HOUR - 5 * H, HOUR), now=now).interval is None


def test_an_amount_per_month_is_its_share_of_the_months_hours():
    an_entry(a_gpu(), job=a_job())
    a_commitment(2, amount_per_month=Decimal(1440))  # 720 hours of November

    line = the_line()

    assert (line.used_usd, line.missing_usd) == (Decimal(1), Decimal(1))


def test_a_price_in_another_currency_is_converted_by_each_hours_rate():
    exchange.set_exchange_rate("EUR", Decimal("1.1"), valid_from=LONG_AGO, now=HOUR)
    exchange.set_exchange_rate("EUR", Decimal("1.2"), valid_from=HOUR + H, now=HOUR)
    an_entry(a_gpu(), job=a_job())
    a_commitment(1, "10", currency="EUR")

    line = the_line(Interval(HOUR, HOUR + 2 * H))

    assert (line.used_usd, line.missing_usd) == (Decimal(11), Decimal(12))


def test_a_currency_that_a_commitment_needs_stays():
    rate = exchange.set_exchange_rate("EUR", Decimal("1.1"), valid_from=LONG_AGO, now=HOUR)
    a_commitment(1, currency="EUR")

    with pytest.raises(RateError, match="Prices in EUR need it"):
        exchange.withdraw_exchange_rate(rate)


def test_it_holds_from_its_beginning_to_its_end():
    an_entry(a_gpu(), job=a_job())
    made = a_commitment(1, valid_from=HOUR + H)

    assert the_line(Interval(HOUR, HOUR + 4 * H)).committed_ms == 3 * HOUR_MS
    end_commitment(made, HOUR + 2 * H)
    assert the_line(Interval(HOUR, HOUR + 4 * H)).committed_ms == HOUR_MS
    withdraw_commitment(made)
    assert coverage(Interval(HOUR, HOUR + 4 * H), now=NOW).lines == []


def test_the_organisations_half_hour_midnights_are_cuts_too():
    home = organisation()
    home.time_zone = "Asia/Kolkata"
    home.save(update_fields=["time_zone"])
    midnight = datetime(2026, 11, 2, 18, 30, tzinfo=UTC)
    gpu = a_gpu()
    an_entry(gpu, job=a_job(), gpu_ms=HOUR_MS // 2, start=midnight - H / 2)
    an_entry(gpu, job=a_job(), start=midnight - H / 2 - H)
    a_commitment(1, valid_from=midnight - H / 2)
    an_entry(gpu, job=a_job(), gpu_ms=HOUR_MS // 2, start=midnight)

    line = the_line(Interval(midnight - H / 2, midnight + H / 2))

    assert (line.used_ms, line.missing_ms) == (HOUR_MS, 0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"gpus": 0}, "gpus"),
        ({"usd": "-1"}, "price"),
        ({"usd": "10001"}, "price"),
        ({"usd": "NaN"}, "price"),
        ({"usd": "0.0000001"}, "price"),
        ({"amount_per_month": Decimal("1e20")}, "amount"),
        ({"amount_per_month": Decimal(1), "price_per_gpu_hour": Decimal(1)}, "price"),
        ({"node_class": "cheap"}, "node_class"),
        ({"region": "a\nb"}, "region"),
        ({"pool": "p" * 64}, "pool"),
        ({"valid_from": HOUR + timedelta(minutes=1)}, "valid_from"),
        ({"valid_to": NOVEMBER}, "valid_to"),
        ({"currency": "XXX"}, "currency"),
    ],
)
def test_what_cannot_be_is_refused_by_field(fields, field):
    with pytest.raises(RateError) as caught:
        a_commitment(**fields)

    assert caught.value.field == field
    assert not Commitment.objects.exists()


def test_a_closed_month_keeps_its_commitments():
    policy, _ = Policy.objects.get_or_create(
        version=1, defaults={"thresholds": {}, "created_at": HOUR}
    )
    made = a_commitment()
    december = datetime(2026, 12, 1, tzinfo=UTC)
    ClosedMonth.objects.create(
        month=date(2026, 11, 1),
        start=NOVEMBER,
        end=december,
        policy=policy,
        closed_at=NOW,
        closed_by="ann",
    )

    for refused in (
        a_commitment,
        lambda: withdraw_commitment(made),
        lambda: end_commitment(made, december - H),
    ):
        with pytest.raises(RateError, match="is closed"):
            refused()
    end_commitment(made, december)
    assert Commitment.objects.get().valid_to == december


@pytest.mark.parametrize(
    "change", [withdraw_commitment, lambda commitment: end_commitment(commitment, NOVEMBER + H)]
)
def test_of_two_admins_the_second_is_told_that_the_commitment_is_gone(change):
    made = a_commitment()
    seen_by_the_second = Commitment.objects.get()
    withdraw_commitment(made)

    with pytest.raises(RateError, match="withdrew it meanwhile"):
        change(seen_by_the_second)


def test_a_form_sent_twice_is_no_second_commitment():
    a_commitment(2)

    with pytest.raises(RateError, match="stands already"):
        a_commitment(2)

    a_commitment(3)
    assert Commitment.objects.count() == 2


def test_the_audit_log_says_what_is_paid():
    a_commitment(2, "1.50")
    a_commitment(2, amount_per_month=Decimal(3000))

    entries = AuditEntry.objects.filter(action="commitment.make").order_by("pk")

    assert [entry.detail["price"] for entry in entries] == [
        "1.5 USD per GPU-hour",
        "3000 USD per month",
    ]
