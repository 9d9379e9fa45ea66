"""What the people of a demo hub have set up and decided: nothing of it leaves the hub."""

from datetime import UTC, datetime

import pytest
import time_machine

from fleetwatch.accounts.models import AuditEntry, SavedView, User
from fleetwatch.accounts.saved_views import drop_view, views_of
from fleetwatch.alerts.models import Silence
from fleetwatch.dashboard.page_addresses import read_address
from fleetwatch.demo import cast, demo_desk
from fleetwatch.notify import delivering
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.reports.models import StatementRecipient
from tests.dashboard import factories
from tests.notify.factories import queue

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)  # a Friday


@pytest.fixture
def people():
    User.objects.create(username="admin", role=User.Role.ADMIN)
    with time_machine.travel(NOW, tick=False):
        cast.make_people(factories.PASSWORD, now=NOW)
        yield


def test_whose_doings_the_log_has_was_here(people):
    names = User.objects.filter(last_login=NOW).order_by("username").values_list("username")

    assert [name for (name,) in names] == ["amara", "fiona", "otto", "priya"]


def test_channels_routes_views_and_silences_are_set_up_by_those_who_may(people):
    assert demo_desk.set_up(NOW) == [
        "organisation.set",
        "mapping.add",
        "token.create",
        "channel.create",
        "report.recipient",
        "view.save",
        "silence.add",
    ]

    channels = {channel.name: channel for channel in Channel.objects.all()}
    assert {name: channel.gets_digest for name, channel in channels.items()} == {
        "Platform on call": True,
        "Team nlp": False,
    }
    assert StatementRecipient.objects.get().channel == channels["Team nlp"]
    window = Silence.objects.get(kind="maintenance")
    assert (window.starts_at, window.ends_at) == (
        datetime(2026, 11, 28, 6, tzinfo=UTC),
        datetime(2026, 11, 28, 10, tzinfo=UTC),
    )
    who = (
        AuditEntry.objects.filter(action="route.set").order_by("pk").values_list("name", flat=True)
    )
    assert list(who) == ["otto", "otto", "amara"]


def test_what_its_channels_get_is_kept_and_sent_nowhere(people):
    demo_desk.set_up(NOW)
    queue(*Channel.objects.all(), now=NOW)

    delivering.deliver_due(NOW, 10)

    answers = Delivery.objects.values_list("state", "last_answer")
    assert set(answers) == {("sent", "kept here, sent nowhere")}
    assert set(Channel.objects.values_list("kind", flat=True)) == {"log"}


def test_its_views_lead_to_pages_and_say_nothing_that_these_do_not_know(people):
    demo_desk.set_up(NOW)

    views = views_of(User.objects.get(username="admin"))
    assert [view.is_shared for view in views] == [False, True, True]
    assert all(read_address(view.address) == (view.path, view.query) for view in views)


def test_set_up_again_what_visitors_removed_stays_removed(people):
    demo_desk.set_up(NOW)
    for view in SavedView.objects.all():
        drop_view(view)

    assert demo_desk.set_up(NOW) == []
    assert not SavedView.objects.exists()


def test_where_one_of_the_cast_is_gone_nothing_is_set_up(people):
    User.objects.filter(username="fiona").update(is_active=False)

    assert demo_desk.set_up(NOW) == []
    assert not Channel.objects.exists()
