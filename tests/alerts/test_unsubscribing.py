import pytest
from django.conf import settings
from django.core import signing

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.alerts.messaging.address_book import preference_of
from fleetwatch.alerts.messaging.unsubscribing import SALT, unsubscribe_url
from fleetwatch.alerts.models import Preference
from tests.dashboard import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


def path(user, what: str) -> str:
    return unsubscribe_url(user, what).removeprefix(settings.PUBLIC_URL)


def stands(user) -> tuple[str, bool]:
    preference = Preference.objects.filter(user=user).first() or Preference(user=user)
    return preference.way, preference.gets_digest


@pytest.mark.parametrize(("what", "then"), [("alerts", ("none", True)), ("digest", ("any", False))])
def test_a_link_asks_and_its_button_stops_it(client, what, then):
    user = factories.user()
    asked = client.get(path(user, what))
    before = stands(user)
    answer = client.post(path(user, what))
    client.post(path(user, what))

    assert b"No more messages?" in asked.content
    assert before == ("any", True)
    assert (answer.status_code, stands(user)) == (200, then)
    assert AuditEntry.objects.filter(action="preference.set").count() == 1


def test_a_mail_program_does_it_by_one_click_without_a_session(client):
    user = factories.user()

    answer = client.post(path(user, "alerts"), {"List-Unsubscribe": "One-Click"})

    assert (answer.status_code, stands(user)[0]) == (200, "none")


def test_all_else_stays_as_it_was_set(client):
    user = factories.user()
    Preference.objects.create(user=user, way="slack", daily_cap=3, time_zone="Asia/Tokyo")

    client.post(path(user, "digest"))

    kept = Preference.objects.get(user=user)
    assert (kept.way, kept.daily_cap, kept.time_zone, kept.gets_digest) == (
        "slack",
        3,
        "Asia/Tokyo",
        False,
    )
    user.refresh_from_db()
    assert preference_of(user).gets_digest is False


@pytest.mark.parametrize("method", ["get", "post"])
def test_what_is_not_signed_by_us_or_is_for_nobody_is_not_there(client, method):
    user = factories.user()
    gone = factories.user(username="gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    links = (
        f"{path(user, 'alerts')}x",
        f"/notifications/unsubscribe/{signing.dumps([user.pk, 'alerts'])}",
        f"/notifications/unsubscribe/{signing.dumps([999_999, 'alerts'], salt=SALT)}",
        path(gone, "alerts"),
    )

    assert {getattr(client, method)(link).status_code for link in links} == {404}
    assert not Preference.objects.exists()


def test_its_page_asks_for_nothing_but_a_post(client):
    assert client.put(path(factories.user(), "alerts")).status_code == 405
