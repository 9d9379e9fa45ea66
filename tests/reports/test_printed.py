"""What is printed of a report sums to what is printed as its total."""

from decimal import Decimal

import pytest

from fleetwatch.dashboard import report_pages
from fleetwatch.reports import printed
from fleetwatch.reports.models import Report
from tests.costs.factories import a_gpu, a_job, a_rate
from tests.reports.factories import OCTOBER, computed, counted, newest

HOUR_MS = 3_600_000


def usd(*amounts):
    return list(map(Decimal, amounts))


@pytest.mark.parametrize(
    ("amounts", "total", "firm", "shown"),
    [
        # three thirds of a dollar: the odd cent goes to the first
        (["0.333333", "0.333333", "0.333334"], "1.00", 0, ["0.33", "0.33", "0.34"]),
        # both round up: 0.52, which with its micro-dollars is 0.51
        (["0.256", "0.256"], "0.51", 0, ["0.26", "0.25"]),
        # what corrections take away is rounded too
        (["1.005", "-0.003"], "1.00", 0, ["1.00", "0.00"]),
        # a team keeps its nearest cent, as on its statement, as long as a line of nobody's can give
        (["17877.226", "0.3355"], "17877.56", 1, ["17877.23", "0.33"]),
        (["0.004", "0.004", "0.004"], "0.01", 2, ["0.00", "0.00", "0.01"]),
        # lines of nobody's that can't give so much: all of them share
        (["0.005001"] * 3 + ["1.00"], "1.02", 3, ["0.01", "0.01", "0.00", "1.00"]),
        # not the sum of these: each to its nearest cent
        (["1.236", "2.001"], "9.00", 1, ["1.24", "2.00"]),
        ([], "0.00", 0, []),
    ],
)
def test_rows_are_rounded_down_or_up_so_that_they_sum(amounts, total, firm, shown):
    assert printed.apportioned(
        usd(*amounts), Decimal(total), {place: Decimal(shown[place]) for place in range(firm)}
    ) == usd(*shown)


def test_certain_and_probable_sum_to_wasted_and_states_to_the_hours():
    shape = {
        "cost_usd": Decimal("30000.004"),
        "wasted_usd": Decimal("23722.084"),
        "waste_usd": {
            "certain": Decimal("17877.227"),
            "probable": Decimal("5844.857"),
            "potential": Decimal("3.009"),
        },
        "gpu_ms": 2 * HOUR_MS,
        "states": dict.fromkeys(("useful", "idle", "free"), 2 * HOUR_MS // 3),
    }

    assert printed.total(shape)["printed"] == {
        "cost_usd": Decimal("30000.00"),
        "wasted_usd": Decimal("23722.08"),
        "certain": Decimal("17877.23"),
        "probable": Decimal("5844.85"),
        "potential": Decimal("3.01"),
        "gpu_hours": Decimal("2.00"),
        "states": {
            "useful": Decimal("0.67"),
            "idle": Decimal("0.67"),
            "free": Decimal("0.66"),
        },
    }


def test_before_volume_mix_and_rate_sum_to_now():
    found = {
        "cost_usd": Decimal("10.004"),
        "volume_usd": Decimal("1.004"),
        "mix_usd": Decimal("1.004"),
        "rate_usd": Decimal("-0.009"),
    }

    shown = printed.comparison(found, Decimal("12.00"))["printed"]

    assert shown["cost_usd"] == Decimal("10.00")
    assert shown["volume_usd"] + shown["mix_usd"] + shown["rate_usd"] == Decimal("2.00")
    assert shown["difference_usd"] == Decimal("2.00")


@pytest.mark.django_db
def test_beyond_the_dearest_lines_one_says_what_the_others_come_to():
    gpu = a_gpu()
    a_rate("1.234567", gpu=gpu)
    for number in range(5):
        job = a_job(key=f"slurm/della/{number}", user="ann")
        counted(gpu, gpu_ms=HOUR_MS // 7, job=job, start=OCTOBER)
    computed()

    for report in (newest("nlp"), newest()):
        shown = report_pages.report_context(report, size=2)
        total = shown["content"]["total"]["printed"]
        assert total["cost_usd"] == Decimal("0.88")  # 5/7 h at $1.234567
        rows = [*shown["lines"], shown["rest"]] if shown["rest"] else shown["content"]["teams"]
        assert sum(row["printed"]["cost_usd"] for row in rows) == Decimal("0.88")
        assert sum(row["printed"]["gpu_hours"] for row in rows) == total["gpu_hours"]
    assert Report.objects.get(kind="statement").content["lines"][4]["cost_usd"] == "0.176366"
    statement = report_pages.report_context(newest("nlp"), size=2)
    assert (len(statement["lines"]), statement["left_off"]) == (2, 3)
