"""What an identity provider may say, and what of it is believed. A real one is in tests/identity."""

import pytest
from allauth.core import context
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.internal.flows.login import complete_login
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpResponse
from django.test import RequestFactory

from fleetwatch.accounts.log_in.single_sign_on import follow
from fleetwatch.accounts.models import AuditEntry, Identity, User
from fleetwatch.accounts.names.name_rule_changes import NewNameRule, set_rule
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

ADDRESS = "ann@example.org"


@pytest.fixture(autouse=True)
def _provider(settings):
    app = {
        "provider_id": "sso",
        "name": "Example Inc.",
        "client_id": "fleetwatch",
        "secret": "between-the-two-of-us",
        "settings": {"server_url": "http://localhost:1"},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    settings.OIDC_ROLES = {"gpu-admins": "admin"}
    settings.OIDC_GROUPS_CLAIM = "groups"


def arrive(
    claims: dict[str, object],
    token: dict[str, object] | None = None,
    *,
    user: User | None = None,
    process: str = "login",
) -> tuple[str, HttpResponse]:
    """Who is logged in once the provider has sent somebody back with these claims."""
    request = RequestFactory().get("/accounts/oidc/sso/login/callback/")
    request.session = SessionStore()
    request.user = user or AnonymousUser()
    request._messages = FallbackStorage(request)
    with context.request_context(request):
        provider = get_adapter().get_provider(request, "sso")
        answer = {"userinfo": claims, "id_token": token or {}}
        came = provider.sociallogin_from_response(request, answer)
        came.state = {"process": process}
        response = complete_login(request, came)
        return request.user.get_username(), response


def said(sub: str, **claims: object) -> dict[str, object]:
    return {"sub": sub, "preferred_username": f"sso-{sub}", **claims}


@pytest.mark.parametrize("verified", [False, "false", "true", "no", 1, None])
def test_an_address_that_is_not_plainly_verified_opens_nobodys_account(verified):
    User.objects.create_user("ann", email=ADDRESS, role="admin")

    name, _ = arrive(said("1", email=ADDRESS, email_verified=verified))

    assert name == "sso-1"
    assert User.objects.get(username=name).role == "engineer"


def test_an_account_of_the_same_verified_address_is_the_persons_and_that_is_in_the_log():
    User.objects.create_user("ann", email=ADDRESS)

    assert arrive(said("1", email=ADDRESS, email_verified=True))[0] == "ann"
    assert AuditEntry.objects.filter(action="login.join", subject="ann").exists()


def test_who_types_the_address_of_a_later_colleague_does_not_share_the_account():
    first, _ = arrive(said("1", email=ADDRESS))
    second, _ = arrive(said("2", email=ADDRESS, email_verified=True, groups=["gpu-admins"]))

    assert (first, second) == ("sso-1", "sso-2")
    assert list(User.objects.order_by("username").values_list("email", "role")) == [
        ("", "engineer"),
        (ADDRESS, "admin"),
    ]


@pytest.mark.parametrize(
    ("claims", "called"),
    [
        ({"preferred_username": "root"}, "root"),
        ({"given_name": "Ann", "family_name": "Lee"}, "ann"),
    ],
)
def test_a_user_name_that_people_have_from_the_provider_makes_no_unix_user_of_them(claims, called):
    """A first name, or what somebody chose there: a rule would give the jobs of whose it is."""
    set_rule(NewNameRule("username"), now=NOW)

    assert arrive({"sub": "1", **claims})[0] == called

    set_rule(NewNameRule("username", cluster="alps"), now=NOW)  # of who is there too
    assert not Identity.objects.filter(system="unix").exists()


def test_a_verified_address_makes_one_by_the_rule_of_its_domain():
    set_rule(NewNameRule("email", "example.org"), now=NOW)

    arrive(said("1", email=ADDRESS, email_verified=True))

    assert Identity.objects.get(system="unix").name == "ann"


def test_a_link_joins_nobody_to_the_account_that_is_logged_in():
    ann = User.objects.create_user("ann", role="admin")

    _, response = arrive(said("1"), user=ann, process="connect")

    assert (response.status_code, response["Location"]) == (302, "/me")
    assert not ann.socialaccount_set.exists()


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["gpu-admins"], "admin"),
        ("gpu-admins", "admin"),
        ("no-gpu-admins-here", "engineer"),
        ({"gpu-admins": False}, "engineer"),
        ([["gpu-admins"], {}, 7], "engineer"),
        (7, "engineer"),
        (True, "engineer"),
        (None, "engineer"),
    ],
)
def test_a_group_counts_by_its_whole_name(groups, role):
    ann = User.objects.create_user("ann")
    User.objects.create_user("root", role="admin")

    follow(ann, {"sub": "1", "groups": groups})

    assert User.objects.get(username="ann").role == role


def test_groups_that_the_token_alone_names_count():
    name, _ = arrive(said("1"), {"sub": "1", "groups": ["gpu-admins"]})

    assert User.objects.get(username=name).role == "admin"


def test_a_name_that_is_given_away_at_that_moment_is_said_and_nobody_is_let_in(monkeypatch):
    """The other account is made between the look for a free name and the own."""

    def save(user: User, *args: object, **keywords: object) -> None:
        User.objects.bulk_create([User(username="SSO-1")])
        AbstractUser.save(user, *args, **keywords)

    monkeypatch.setattr(User, "save", save)

    name, response = arrive(said("1"))

    assert (name, response["Location"]) == ("", "/accounts/login/")
    assert not User.objects.exists()
