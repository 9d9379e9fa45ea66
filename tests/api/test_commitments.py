"""/api/v1/commitments: terms, and what of them was used, there and missing, by hand."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Commitment
from fleetwatch.finance.committing import commit
from tests.costs.factories import HOUR, HOUR_MS, LONG_AGO, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db
PERIOD = f"?from={HOUR:%Y-%m-%dT%H:%M:%SZ}&to={HOUR + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"


def test_a_commitment_says_what_of_it_was_used_unheld_and_missing(api):
    gpu = a_gpu()
    a_rate("2", gpu=gpu)
    an_entry(gpu, job=a_job())
    an_entry(gpu, "free", start=HOUR + timedelta(hours=1))
    commit(
        Commitment(
            gpu_model=gpu.model,
            gpus=2,
            name="17",
            valid_from=LONG_AGO,
            price_per_gpu_hour=Decimal(2),
        ),
        now=HOUR,
    )

    answer = api.get(f"/api/v1/commitments{PERIOD}").json()

    [row] = answer["rows"]
    assert (row["name"], row["gpu_model"], row["gpus"], row["price_per_gpu_hour"], row["pool"]) == (
        "17",
        "H100 SXM",
        2,
        2.0,
        None,
    )
    assert row["in_period"] == {
        "committed_ms": 4 * HOUR_MS, "used_ms": HOUR_MS, "unheld_ms": HOUR_MS,
        "missing_ms": 2 * HOUR_MS,
        "committed_usd": 8.0, "used_usd": 2.0, "unheld_usd": 2.0, "missing_usd": 4.0,
        "rate_book_usd": 4.0,
        "coverage": 0.5, "utilisation": 0.25,
    }  # fmt: skip
    assert (answer["missing_usd"], answer["above"]) == (4.0, [])


def test_hours_that_the_ledger_does_not_know_have_no_figures(api):
    gpu = a_gpu()
    commit(
        Commitment(
            gpu_model=gpu.model,
            gpus=2,
            name="17",
            valid_from=LONG_AGO,
            price_per_gpu_hour=Decimal(2),
        ),
        now=HOUR,
    )

    answer = api.get(f"/api/v1/commitments{PERIOD}").json()

    assert (answer["rows"][0]["in_period"], answer["counted_from"], answer["missing_usd"]) == (
        None,
        None,
        0.0,
    )
