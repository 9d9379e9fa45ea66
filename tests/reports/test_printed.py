"""What is printed of a report sums to what is printed as its total."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from fleetwatch.dashboard import report_pages
from fleetwatch.dashboard.month_rows import month_rows
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
        # what is nothing takes no odd cent, rather than that a team keeps its nearest one
        (["0.0049", "0.0049", "0"], "0.01", 0, ["0.01", "0.00", "0.00"]),
        (["0.255", "0.255", "0"], "0.51", 1, ["0.26", "0.25", "0.00"]),
        # not the sum of these: each to its nearest cent
        (["1.236", "2.001"], "9.00", 1, ["1.24", "2.00"]),
        ([], "0.00", 0, []),
    ],
)
def test_rows_are_rounded_down_or_up_so_that_they_sum(amounts, total, firm, shown):
    assert printed.apportioned(
        usd(*amounts), Decimal(total), {place: Decimal(shown[place]) for place in range(firm)}
    ) == usd(*shown)


def test_a_cent_that_teams_leave_is_never_waste_of_what_wasted_nothing():
    """Two teams at their nearest cents leave one of $0.01, and free GPUs wasted nothing."""
    shown = printed.apportioned(
        usd("0.004", "0.004", "0"), Decimal("0.01"), dict(enumerate(usd("0.00", "0.00")))
    )

    assert shown == usd("0.01", "0.00", "0.00")


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


def a_line(user, cost_usd):
    amount = Decimal(cost_usd)
    zero = dict.fromkeys(("certain", "probable", "potential"), Decimal(0))
    return {
        "user": user, "cost_usd": amount, "wasted_usd": Decimal(0), "waste_usd": zero,
        "gpu_ms": 0, "priced_ms": 0, "states": {},
    }  # fmt: skip


def test_the_only_line_of_a_user_reads_as_the_user_does():
    lines = [a_line("ann", "1.005"), a_line("bob", "1.004"), a_line("ann", "1.003")]
    ann = printed.total(a_line("ann", "2.008"))
    bob = printed.total(a_line("bob", "1.004"))
    bob["printed"]["cost_usd"] = Decimal("1.01")  # as the users' table has it

    shown = printed.within(lines, [ann, bob], "user")

    assert [line["printed"]["cost_usd"] for line in shown] == usd("1.01", "1.01", "1.00")


def test_what_was_there_of_a_commitment_reads_the_same_in_both_tables():
    line = {"printed": {"used_usd": Decimal("7.15"), "unheld_usd": Decimal("2.86")}}

    shown = printed.at_the_rates(line, Decimal("0.34"))["printed"]

    # $10.01 by contract, $9.67 at the rates, $0.34 more
    assert [shown[name] for name in ("there_usd", "rate_book_usd", "rate_book_differs_usd")] == usd(
        "10.01", "9.67", "0.34"
    )


def test_parts_of_the_free_capacity_sum_to_its_own_line():
    free = {
        "teams": [
            {"slug": slug, "cost_usd": Decimal(1), "free_usd": part, "with_free_usd": part + 1}
            for slug, part in (("nlp", Decimal("0.335")), ("vision", Decimal("0.335")))
        ],
        "left_usd": Decimal(0),
    }

    shown = printed.with_parts(free, {"nlp": Decimal("1.01")}, Decimal("0.67"))

    assert [team["printed"]["free_usd"] for team in shown["teams"]] == usd("0.34", "0.33")
    assert [team["printed"]["with_free_usd"] for team in shown["teams"]] == usd("1.35", "1.33")
    assert shown["total"] == {
        "cost_usd": Decimal("2.01"), "free_usd": Decimal("0.67"), "with_free_usd": Decimal("2.68"),
    }  # fmt: skip


def test_what_the_fleet_wasted_is_what_its_teams_statements_print_added_up():
    """Two teams wasted $0.256 each: $0.26 on each statement, so the fleet's $0.52 and no $0.51."""

    def shape(wasted):
        tiers = {"certain": Decimal(wasted), "probable": Decimal(0), "potential": Decimal(0)}
        figures = {"cost_usd": Decimal(2), "wasted_usd": Decimal(wasted), "waste_usd": tiers}
        return figures | {"gpu_ms": HOUR_MS, "states": {"idle": HOUR_MS}}

    teams, own_lines = [shape("0.256"), shape("0.256")], [shape("0")]
    fleet = printed.with_waste(printed.total(shape("0.512")), teams, own_lines)
    rows = printed.rows([*teams, *own_lines], fleet, firm=2)

    for name in ("wasted_usd", "certain"):
        assert fleet["printed"][name] == Decimal("0.52")
        assert [row["printed"][name] for row in rows] == usd("0.26", "0.26", "0.00")


def test_what_no_job_held_and_wasted_prints_its_cost_and_certain_and_probable_sum_to_wasted():
    """Two teams wasted $0.254 (half of it probable) of $1.004, an orphan all of its $2.004."""

    def shape(cost, certain, probable):
        tiers = {
            "certain": Decimal(certain),
            "probable": Decimal(probable),
            "potential": Decimal(0),
        }
        wasted = {"wasted_usd": tiers["certain"] + tiers["probable"], "waste_usd": tiers}
        return wasted | {"cost_usd": Decimal(cost), "gpu_ms": HOUR_MS, "states": {"idle": HOUR_MS}}

    teams = [shape("1.004", "0.127", "0.127")] * 2
    own_lines = [shape("2.004", "2.004", "0")]
    # 4.012 is 4.01: after the teams' 1.00 each the orphan's line is 2.01
    fleet = printed.with_waste(printed.total(shape("4.012", "2.258", "0.254")), teams, own_lines)
    rows = printed.rows([*teams, *own_lines], fleet, firm=2)

    assert [row["printed"]["cost_usd"] for row in rows] == usd("1.00", "1.00", "2.01")
    assert [row["printed"]["certain"] for row in rows] == usd("0.13", "0.13", "2.01")
    assert [row["printed"]["probable"] for row in rows] == usd("0.12", "0.12", "0.00")
    shown = fleet["printed"]
    assert [shown["certain"], shown["probable"], shown["wasted_usd"]] == usd("2.27", "0.24", "2.51")


def test_the_list_of_a_month_prints_what_the_fleets_report_does():
    """An orphan of $2.004, printed as $2.01 beside two teams of $1.004 that wasted $0.254 each."""
    tiers = {"certain": "2.004", "probable": "0", "potential": "0"}
    fleet = SimpleNamespace(
        cost_usd=Decimal("4.012"), wasted="2.512", before=None,
        own_lines=[{"cost_usd": "2.004", "waste_usd": tiers}],
    )  # fmt: skip
    team = SimpleNamespace(cost_usd=Decimal("1.004"), wasted_usd=Decimal("0.254"), before_usd=None)

    shown = month_rows(fleet, [team, team])

    assert (shown["no_team"].cost_usd, shown["no_team"].wasted_usd) == (
        Decimal("2.01"),
        Decimal("2.01"),
    )
    assert shown["fleet"].wasted_usd == Decimal("2.51")


def test_a_part_is_never_printed_as_more_than_what_it_is_of():
    """Of $261.964 nearly all, $261.963, was wasted; the cent that is over goes to another row."""
    limits = [Decimal("261.96"), Decimal("10.00")]
    amounts = [Decimal("261.963"), Decimal("5.002")]

    shown = printed.at_most(limits, amounts, Decimal("266.97"))

    assert shown == [Decimal("261.96"), Decimal("5.01")]


def test_where_nothing_else_can_take_it_a_part_is_printed_as_the_total_says():
    assert printed.at_most([Decimal("1.00")], [Decimal("1.004")], Decimal("1.01")) == [
        Decimal("1.01")
    ]
