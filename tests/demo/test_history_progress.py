"""How much of a demo's history has come, as every page says it."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.accounts.models import Organisation
from fleetwatch.accounts.selectors import organisation
from fleetwatch.demo.history_progress import HistoryProgress, history_progress
from tests.costs.factories import a_gpu, a_policy, counted_all, unsaved_entry

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 27, 21, 30, tzinfo=UTC)


def entries(*, since: timedelta) -> None:
    start = (NOW - since).replace(minute=0)
    counted_all([unsaved_entry(a_gpu(), "free", 3_600_000, policy=a_policy(), start=start)])


@pytest.mark.parametrize(
    ("of_hub", "since", "days", "of_days"),
    [
        ({"is_demo_hub": True}, timedelta(days=6, hours=5), 6, 14),
        ({"is_demo_hub": True}, timedelta(days=14), 14, 14),  # all there, and no causes yet
        ({"demo_since": NOW}, timedelta(days=2), 2, 3),
    ],
)
def test_whole_days_count_until_all_are_there_and_diagnosed(of_hub, since, days, of_days):
    Organisation.objects.update_or_create(pk=1, defaults=of_hub)
    entries(since=since)

    assert history_progress(NOW) == HistoryProgress(days, of_days, 0.0)


def test_before_anything_was_posted_no_day_is_there():
    Organisation.objects.update_or_create(pk=1, defaults={"is_demo_hub": True})

    assert history_progress(NOW) == HistoryProgress(0, 14, 1.0)


def test_a_hub_of_real_nodes_is_asked_nothing_more(django_assert_num_queries):
    organisation()
    entries(since=timedelta(days=1))

    with django_assert_num_queries(1):  # whether it is one
        assert history_progress(NOW) is None
