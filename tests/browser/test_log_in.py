"""Logging in as people do: an invitation from its link to my page, an authenticator app, a passkey
of Chromium's own virtual authenticator.
"""

import re
from email.message import EmailMessage

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.utils import timezone
from playwright.sync_api import Browser, Page

from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import Invited, invite
from fleetwatch.lib.intervals import floor_hour
from tests.accounts.totp import code
from tests.browser.sites import Watched
from tests.dashboard import factories, fleet
from tests.notify.factories import email_channel
from tests.notify.fakes import FakeSMTP

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PASSKEYS = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def site(live_server, db, settings):
    cache.clear()
    settings.MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = True
    factories.user(role="engineer")
    return live_server.url


@pytest.fixture
def watched(browser: Browser):
    context = browser.new_context()
    yield Watched(context.new_page())
    context.close()


def log_in(page: Page, site: str, name: str = "ann") -> None:
    page.goto(f"{site}/accounts/login/")
    page.fill("#id_login", name)
    page.fill("#id_password", factories.PASSWORD)
    page.click("button[type=submit]")


def log_out(page: Page, site: str) -> None:
    page.goto(f"{site}/accounts/logout/")
    page.click("main button")


def confirm(page: Page) -> None:
    """The password once more, before anything about the log-in changes."""
    page.fill("input[type=password]", factories.PASSWORD)
    page.click("form.form button")


def add_app(page: Page, site: str) -> str:
    """The secret that an authenticator app was given."""
    page.goto(f"{site}/accounts/2fa/totp/activate/")
    confirm(page)
    page.wait_for_selector("img")
    secret = page.input_value("#authenticator_secret, input[disabled]")
    page.fill("#id_code", code(secret))
    page.click("form.form button")
    page.wait_for_url("**/recovery-codes/")
    cache.clear()  # a code counts once
    return secret


def test_an_invitation_leads_to_my_page(watched, site):
    page = watched.page
    admin = factories.user(username="root")
    text = invite(Invited("engineer"), by=admin, now=admin.date_joined)
    page.goto(f"{site}/accounts/invitations/{text}/")

    page.fill("#you-username", "cy")
    page.fill("#you-password", "correct horse battery staple")
    page.click("form.form button")

    page.wait_for_selector("h1")
    assert User.objects.filter(username="cy").exists()
    assert watched.complaints == []


def test_from_an_invitation_by_mail_to_the_jobs_on_my_page(browser, site, settings):
    settings.PUBLIC_URL = site
    factories.user(username="root")
    fleet.make(nodes=1, gpus=1, hours=2, now=floor_hour(timezone.now()))
    smtp = FakeSMTP()
    email_channel(smtp.port)
    admins, cys = (Watched(browser.new_context().new_page()) for _ in range(2))

    log_in(admins.page, site, "root")
    invite_by_mail(admins.page, site, "cy@people.example")
    [mail] = smtp.script.mails
    assert mail["To"] == "cy@people.example"
    take_up(cys.page, link_in(mail))
    claim(cys.page, site, "ann")
    admins.page.goto(f"{site}/settings/people")
    admins.page.click("form[action$='/confirm'] button")
    cys.page.goto(f"{site}/me?range=24h")

    assert cys.page.text_content("h1").strip() == "My jobs"
    assert cys.page.locator("a[href^='/jobs/slurm']").count() > 0
    smtp.stop()
    for each in (admins, cys):
        each.page.context.close()
        assert each.complaints == []


def invite_by_mail(page: Page, site: str, address: str) -> None:
    page.goto(f"{site}/settings/people")
    page.fill("#invite input[name=email]", address)
    page.click("#invite button.button")
    page.wait_for_selector(f"text=The invitation was sent to {address}")


def link_in(mail: EmailMessage) -> str:
    """The invitation's address, as the plain part says it."""
    text = mail.get_body(("plain",)).get_content()
    return re.search(r"http\S+/accounts/invitations/\S+", text)[0]


def take_up(page: Page, link: str) -> None:
    page.goto(link)
    page.fill("#you-username", "cy")
    page.fill("#you-password", "correct horse battery staple")
    page.click("form.form button")
    page.wait_for_selector("h1")


def claim(page: Page, site: str, name: str) -> None:
    """Says which user name the jobs run under."""
    page.goto(f"{site}/me")
    page.fill("#names form.row input[name=name]", name)
    page.click("#names form.row button")
    page.wait_for_selector("text=waits")


def test_an_authenticator_apps_code_is_asked_for_and_lets_in(watched, site):
    page = watched.page
    log_in(page, site)
    secret = add_app(page, site)
    log_out(page, site)

    log_in(page, site)
    page.wait_for_url("**/2fa/authenticate/")
    page.fill("#id_code", code(secret))
    page.click("form.form button")

    page.goto(f"{site}/me")
    assert page.inner_text("h1") == "My jobs"
    assert watched.complaints == []


def test_a_passkey_lets_in_without_a_password(watched, site):
    page = watched.page
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": PASSKEYS})
    log_in(page, site)
    page.goto(f"{site}/accounts/2fa/webauthn/add/")
    confirm(page)
    page.fill("#id_name", "laptop")
    page.check("#id_passwordless")
    page.click("#mfa_webauthn_add")
    page.wait_for_url(re.compile("recovery-codes|webauthn/?$"))
    assert Authenticator.objects.filter(type="webauthn").count() == 1
    log_out(page, site)

    page.goto(f"{site}/accounts/login/")
    page.click("#passkey_login")
    page.wait_for_url(lambda url: "/accounts/" not in url)

    page.goto(f"{site}/me")
    assert page.inner_text("h1") == "My jobs"
    assert watched.complaints == []
