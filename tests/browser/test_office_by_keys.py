"""The office's walks without a mouse: the FinOps lead's month end, and an admin's token rotation and
end of an account; the focus is in sight at each stop.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from fleetwatch.accounts.services import hint
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.ledger.models import ClosedMonth
from fleetwatch.notify.models import Delivery
from tests.browser.hubs import ENDED, MONTH, Tab, now
from tests.browser.keyboard import Keyboard
from tests.browser.sites import wait_for_charts
from tests.dashboard import factories
from tests.reports.factories import work

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lead(tab: Tab, books: str) -> Keyboard:
    """The FinOps lead's, at the overview."""
    page = tab("fay")
    wait_for_charts(page)
    return Keyboard(page)


def test_a_rate_is_set_and_the_month_closed_by_keys(lead: Keyboard):
    keys, page = lead, lead.page
    keys.open("g", "u")
    keys.skip_the_menu()
    keys.go("^Add or change a rate")
    keys.press("Enter")
    keys.go("^Per GPU-hour", most=3)
    page.keyboard.type("3")
    keys.go("^Show the effect$")
    keys.open("Enter")
    keys.go("^Set the rate$")
    keys.open("Enter")
    expect(page.locator("#rates")).to_contain_text("$3.00")

    keys.skip_the_menu()
    keys.go("^Months$")
    keys.open("Enter")
    keys.skip_the_menu()
    keys.go("^Why$")
    page.keyboard.type("invoice paid")
    keys.go(f"^Close {ENDED:%B %Y} for good$", most=1)
    keys.open("Enter")
    expect(page.locator("#months td.name").first).to_have_text(f"{ENDED:%B %Y}")
    assert ClosedMonth.objects.get().reason == "invoice paid"


def test_a_statement_is_computed_approved_and_sent_by_keys(lead: Keyboard, books: str):
    keys, page = lead, lead.page
    keys.open("g", "e")
    keys.skip_the_menu()
    keys.go("^statement of NLP$")
    keys.open("Enter")
    keys.skip_the_menu()
    keys.go(f"^{ENDED:%B %Y}$")
    keys.open("Enter")
    keys.skip_the_menu()
    keys.go(f"^Compute {ENDED:%B %Y} now$")
    keys.open("Enter")
    work(now())

    page.goto(f"{books}/teams/nlp/{MONTH}")
    wait_for_charts(page)
    keys.skip_the_menu()
    keys.go("^Download")
    keys.press("Enter")
    keys.go("^Excel$", most=1)
    with page.expect_download():
        keys.press("Enter")
    keys.press("Escape")
    assert keys.focus.startswith("Download")
    keys.go("^Note$")
    page.keyboard.type("agrees")
    keys.go("^Approve version 1", most=1)
    keys.open("Enter")
    keys.go("^Add a recipient$")
    keys.press("Enter")
    keys.go("^Address$", most=3)
    page.keyboard.type("cfo@example.org")
    keys.go("^Add$", most=1)
    keys.open("Enter")
    keys.go(f"^Send {ENDED:%B %Y} now$")
    keys.open("Enter")
    expect(page.get_by_text("On its way to 1 recipient.")).to_be_visible()
    assert Delivery.objects.get().address == "cfo@example.org"


def test_a_token_is_rotated_and_an_account_ended_by_keys(tab: Tab, empty_hub: str):
    before = create_agent_token("gpu-01", now())
    gone = factories.user(role="operator", username="bo")
    keys = Keyboard(page := tab("ann"))
    keys.skip_the_menu()
    page.goto(f"{empty_hub}/settings/agents")
    keys.skip_the_menu()
    keys.go("^Create a token for one node")
    keys.press("Enter")
    keys.go("^Node$", most=1)
    page.keyboard.type("gpu-01")
    keys.go("^Create token$", most=2)
    keys.open("Enter")
    assert re.search(r"FLEETWATCH_TOKEN=(\S+);", page.inner_text("#secret"))

    revoke(keys, page, hint(before))
    expect(page.locator("main")).to_contain_text("revoked")
    assert AgentToken.objects.get(hint=hint(before)).revoked_at is not None

    keys.open("g", "p")
    keys.skip_the_menu()
    keys.go("^bo$")
    keys.open("Enter")
    keys.skip_the_menu()
    keys.go("^Deactivate this account")
    keys.press("Enter")
    keys.go("^Deactivate$", most=2)
    keys.open("Enter")
    expect(page.get_by_role("button", name="Reactivate")).to_be_visible()
    gone.refresh_from_db()
    assert not gone.is_active


def revoke(keys: Keyboard, page: Page, of: str) -> None:
    """The token of that beginning, of several that can be."""
    keys.go("^Revoke$")
    while of not in page.evaluate("document.activeElement.closest('tr').innerText"):
        keys.go("^Revoke$")
    keys.press("Enter")
    keys.go("^Revoke for good$", most=1)
    keys.open("Enter")
