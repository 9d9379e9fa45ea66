"""Which statements a change of rates would give a new version is known before anybody makes it."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Rate
from fleetwatch.ledger.months.closing import close_month
from fleetwatch.reports.models import Report
from fleetwatch.reports.new_versions import ChangedMonth, changed_months
from fleetwatch.reports.statement_choices import choose_free_capacity
from tests.reports.factories import NOW, OCTOBER, SEPTEMBER, a_fleet, computed, newest

pytestmark = pytest.mark.django_db
NOVEMBER = OCTOBER + timedelta(days=31)


def dearer(gpu, usd="5"):
    """A change that sets the rate of the GPU's model, in all of its time."""
    return lambda: Rate.objects.filter(gpu_model=gpu.model).update(price_per_gpu_hour=Decimal(usd))


def test_teams_and_months_whose_dollars_change_are_named_and_nothing_is_written():
    big, small = a_fleet()
    computed()

    # the small GPU is held by nlp and by a job without a team, the large one by nlp and vision
    assert changed_months(dearer(small)) == [ChangedMonth("2026-10", [newest_none(), "NLP"])]
    assert changed_months(dearer(big)) == [ChangedMonth("2026-10", ["NLP", "VISION"])]
    assert Rate.objects.get(gpu_model=big.model).price_per_gpu_hour == 4


def newest_none():
    return newest("(none)").content["team"]["name"]


def test_a_month_is_named_too_where_the_one_that_it_is_compared_with_changes():
    big, _ = a_fleet()
    computed("2026-09")
    computed()
    whole = Rate.objects.get(gpu_model=big.model)

    def change():
        """Only September's hours get dearer."""
        Rate.objects.filter(pk=whole.pk).update(valid_to=OCTOBER, price_per_gpu_hour=Decimal(5))
        whole.pk, whole.valid_from = None, OCTOBER
        whole.save(force_insert=True)

    assert changed_months(change) == [
        ChangedMonth("2026-10", ["NLP"]),  # September is what it is compared with
        ChangedMonth("2026-09", ["NLP"]),
    ]


def test_a_rate_that_begins_after_all_reports_changes_none():
    big, _ = a_fleet()
    computed()

    def change():
        Rate.objects.filter(gpu_model=big.model).update(valid_to=NOVEMBER)

    assert changed_months(change) == []


def test_what_is_not_computed_or_is_closed_is_not_named():
    big, _ = a_fleet()
    assert changed_months(dearer(big)) == []

    computed("2026-09")
    close_month(date(2026, 9, 1), by="ann", now=NOW)

    assert changed_months(dearer(big)) == []
    assert Report.objects.filter(start=SEPTEMBER).exists()


def test_free_capacity_that_gets_dearer_changes_statements_over_which_it_is_spread():
    big, _ = a_fleet()
    computed()

    choose_free_capacity("even")
    [october] = changed_months(dearer(big))

    assert october.teams == sorted(["NLP", "VISION", newest_none()], key=str.casefold)
