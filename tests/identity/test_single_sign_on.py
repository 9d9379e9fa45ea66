"""Log-in by a real OpenID Connect provider: an account, a role and teams by groups, followed at each
log-in; a person who is out stays out.
"""

import pytest
from django.core.cache import cache
from django.urls import reverse
from playwright.sync_api import Browser

from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.people import deactivate
from tests.browser.conftest import browser, static_root
from tests.browser.sites import live_server
from tests.dashboard import factories
from tests.identity.provider import NAME, Provider, log_in

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["browser", "live_server", "static_root"]

ANN = {
    "email": "ann@example.org",
    "email_verified": True,
    "preferred_username": "ann",
    "groups": ["gpu-operators", "ml-nlp", "everybody"],
}


@pytest.fixture
def provider(live_server, settings):
    cache.clear()
    callback = live_server.url + reverse("openid_connect_callback", args=["sso"])
    running = Provider(callback)
    settings.OIDC_NAME = NAME
    settings.OIDC_ROLES = {"gpu-admins": "admin", "gpu-operators": "operator"}
    settings.OIDC_TEAMS = {"ml-nlp": "nlp", "ml-vision": "vision"}
    settings.OIDC_USER_CLAIM = "preferred_username"
    app = {
        "provider_id": "sso",
        "name": NAME,
        "client_id": "fleetwatch",
        "secret": "between-the-two-of-us",
        "settings": {"server_url": running.url},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {"APPS": [app], "OAUTH_PKCE_ENABLED": True}
    }
    yield running
    running.stop()


@pytest.fixture
def page(browser: Browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_the_first_log_in_makes_an_account_with_role_team_and_names(page, provider, live_server):
    provider.start(ann=ANN)

    log_in(page, live_server.url)
    page.goto(f"{live_server.url}/me")

    ann = User.objects.get()
    assert page.inner_text("h1") == "My jobs"
    assert (ann.username, ann.email, ann.role) == ("ann", "ann@example.org", "operator")
    assert not ann.has_usable_password()
    assert [each.team.slug for each in ann.memberships.all()] == ["nlp"]
    names = Identity.objects.filter(confirmed_at__isnull=False)
    assert {(name.system, name.name) for name in names} == {
        ("oidc", "ann"),
        ("unix", "ann"),
    }


def test_what_the_provider_says_later_is_so_from_the_next_log_in(page, provider, live_server):
    factories.user(username="root")
    provider.start(ann=ANN | {"groups": ["gpu-admins", "ml-nlp"]})
    log_in(page, live_server.url)
    ann = User.objects.get(username="ann")
    Team.objects.create(slug="own", name="by hand").memberships.create(
        user=ann, valid_from=ann.date_joined
    )
    assert ann.role == "admin"

    provider.start(ann=ANN | {"groups": ["ml-vision"]})
    log_in(page, live_server.url)

    ann.refresh_from_db()
    current = ann.memberships.filter(valid_until=None)
    assert ann.role == "engineer"
    assert {each.team.slug for each in current} == {"vision", "own"}
    assert User.objects.filter(username="ann").count() == 1


def test_an_account_of_the_same_verified_address_is_the_persons(page, provider, live_server):
    mine = factories.user(username="ann.lee", role="engineer")
    User.objects.filter(pk=mine.pk).update(email="ann@example.org")
    provider.start(ann=ANN)

    log_in(page, live_server.url)

    assert User.objects.get().username == "ann.lee"


def test_an_address_that_the_provider_did_not_verify_is_nobodys(page, provider, live_server):
    mine = factories.user(username="ann", role="admin")
    User.objects.filter(pk=mine.pk).update(email="ann@example.org")
    provider.start(ann=ANN | {"email_verified": False, "groups": []})

    log_in(page, live_server.url)

    page.goto(f"{live_server.url}/settings/people")
    assert User.objects.get(pk=mine.pk).role == "admin"
    assert not Identity.objects.filter(user=mine).exists()


def test_who_is_out_is_not_let_in_by_the_provider(page, provider, live_server):
    root = factories.user(username="root")
    provider.start(ann=ANN)
    log_in(page, live_server.url)
    deactivate(User.objects.get(username="ann"), now=root.date_joined)

    log_in(page, live_server.url)

    page.goto(f"{live_server.url}/me")
    assert "/accounts/login/" in page.url
