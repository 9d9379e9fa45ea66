"""The fleet's report: what the month comes to first, then of what it is made; and what each cause
wasted of it.
"""

import re
from html import unescape

import pytest

from fleetwatch.costs.models import Commitment
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from tests.costs.factories import HOUR_MS, a_gpu
from tests.diagnosis.told import cause
from tests.finance.test_report_lines import a_commitment
from tests.reports.factories import HOUR, OCTOBER, a_fleet, book, computed, counted, newest

pytestmark = pytest.mark.django_db


def text(answer):
    assert answer.status_code == 200
    words = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))
    return re.sub(r" ([,:;.])", r"\1", words)


def address(ending=""):
    return f"/reports/{newest().pk}{ending}"


def test_where_gpus_are_committed_to_the_month_leads_with_what_it_comes_to(viewer):
    """$19 at the rates, $27 not delivered, and $2 by contract."""
    big, _ = a_fleet()
    a_commitment(big.model)
    computed()

    for ending in ("", "/print"):
        page = text(viewer.get(address(ending)))

        assert "October 2026 comes to $48.00, due by contract: its GPU time cost $19.00" in page
        assert "at the rates, and contracts and undelivered GPUs add $29.00" in page
        assert "Cost, at the rates" in page


def test_with_a_booked_invoice_it_comes_to_what_that_makes_of_it(viewer):
    big, _ = a_fleet()
    a_commitment(big.model)
    book("L4")
    computed()

    assert (
        "October 2026 comes to $45.00, with what was booked of invoices: its GPU time cost $19.00"
        " at the rates, and contracts, undelivered GPUs and booked invoices add $26.00."
    ) in text(viewer.get(address()))


def test_contracts_below_the_rates_are_said_to_take_off_what_they_do(viewer):
    """Of ten hours at $1 four were there, which the ledger has at $4, and six were not."""
    big, _ = a_fleet()
    a_commitment(big.model)
    Commitment.objects.update(price_per_gpu_hour=1)
    computed()

    page = text(viewer.get(address()))

    assert "cost $19.00 at the rates, and contracts and undelivered GPUs take off $6.00." in page


def test_without_any_the_month_leads_with_its_cost(viewer):
    a_fleet()
    computed()

    page = text(viewer.get(address()))

    assert "October 2026 cost $19.00;" in page
    assert "comes to" not in page
    assert "at the rates" not in page.partition("GPU-hours")[0]


def test_hours_above_the_commitments_are_a_table_with_its_sum_and_why(viewer):
    """One H100 is committed to, a second one stood beside it for half an hour."""
    big, _ = a_fleet()
    a_commitment(big.model, gpus=1)
    second = a_gpu(model="H100")
    counted(second, "free", HOUR_MS // 2, start=OCTOBER + 2 * HOUR)
    computed()

    page = text(viewer.get(address()))
    above = page.partition("Above the commitments")[2]

    assert "no contract has a price for it, so it costs its own rate" in above
    assert "H100 0.50 11 % $4.00 $2.00 Total 0.50 $2.00" in above
    assert "Of the GPU time $2.00 is above the commitments" in page


def diagnosed_in_part():
    """nlp's idle hour of $4 has a cause; of an orphaned half hour of $2 it is its own, and of a
    stalled quarter of $1 nobody knows one.
    """
    big, _ = a_fleet()
    train = Job.objects.get(key="slurm/della/1")
    cause(of=train, on=big, start=OCTOBER + HOUR)
    counted(big, "orphaned", HOUR_MS // 2, start=OCTOBER + 5 * HOUR, tier="certain")
    counted(big, "stalled", HOUR_MS // 4, job=train, start=OCTOBER + 6 * HOUR, tier="probable")
    computed()


@pytest.mark.parametrize("ending", ["", "/print"])
def test_the_fleets_waste_by_cause_sums_to_what_was_wasted(viewer, ending):
    diagnosed_in_part()

    answer = viewer.get(address(ending))

    page = text(answer)
    rows = page.partition("Why it was wasted")[2].partition("Teams and unallocated capacity")[0]
    assert "Idle: still held" in rows
    assert "Wasted 1.75 $7.00" in rows
    lines = {
        line.cause.group.label: (line.wasted_usd, round(line.cause.share, 2))
        for line in answer.context["waste_lines"]
    }
    assert list(lines.values()) == [(4, 0.57), (2, 0.29), (1, 0.14)]
    assert "No known cause" in lines
    printed = answer.context["content"]["total"]["printed"]
    assert sum(usd for usd, _ in lines.values()) == printed["wasted_usd"]
    assert ", most by “Idle: still held”" in page


def test_waste_that_changed_since_is_said_and_not_printed(viewer):
    diagnosed_in_part()
    Entry.objects.filter(state="orphaned").delete()

    page, paper = (text(viewer.get(address(ending))) for ending in ("", "/print"))

    assert "as diagnosed now, which is $5.00 wasted; this version has $7.00" in page
    assert "Why it was wasted" not in paper


def test_a_teams_statement_has_its_own_causes_alone(viewer):
    diagnosed_in_part()

    assert "waste_lines" not in viewer.get(f"/reports/{newest('vision').pk}").context
