"""What people come for, without a mouse: each step by keys, and the focus in sight at each stop."""

import pytest
from playwright.sync_api import expect

from fleetwatch.alerts.models import Incident
from fleetwatch.diagnosis.models import Finding
from tests.browser.hubs import Tab, slack_link
from tests.browser.keyboard import Keyboard
from tests.browser.sites import wait_for_charts

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def engineer(tab: Tab, morning) -> Keyboard:
    """The platform engineer's, at the overview of the morning."""
    page = tab("ann")
    wait_for_charts(page)
    return Keyboard(page)


def test_the_incident_of_the_morning_is_acknowledged_and_snoozed_by_keys(engineer: Keyboard):
    keys, page = engineer, engineer.page
    keys.skip_the_menu()
    keys.go("^Firing incidents 1")
    keys.open("Enter")

    keys.press("j")
    assert keys.focus == "Idle · slurm/della/7"
    title = keys.focus
    keys.press("x")
    assert page.is_checked("[data-row] input")
    keys.go("^Choose ", by="Shift+Tab", most=1)
    keys.press("Space")
    assert not page.is_checked("[data-row] input")
    keys.open("a")
    expect(page.locator("main")).to_contain_text("1 acknowledged.")

    keys.go("^Acknowledged 1$")
    keys.open("Enter")
    keys.press("j", "k")
    assert keys.focus == title
    keys.open("o")
    incident = Incident.objects.get()
    assert page.url.endswith(f"/incidents/{incident.pk}")
    keys.skip_the_menu()
    keys.go("^More about this incident")
    keys.press("Enter")
    keys.go("^Snooze for")
    keys.press("ArrowDown")
    keys.go("^Snooze$", most=1)
    keys.open("Enter")
    incident.refresh_from_db()
    assert incident.state == "acknowledged"
    assert incident.snoozed_until is not None


def test_the_fleet_is_narrowed_and_its_period_chosen_by_keys(engineer: Keyboard):
    keys, page = engineer, engineer.page
    keys.open("g", "f")
    held = []
    page.route("**/filters**", lambda route, _: held.append(route))
    keys.skip_the_menu()
    keys.go("^Filter$")
    keys.press("Enter")
    keys.go("^State$")
    held[0].continue_()
    expect(page.locator(".fields select[name=state]")).to_be_visible()
    assert keys.focus == "State"
    page.keyboard.type("Idle")
    keys.go("^Apply$")
    keys.open("Enter")
    assert "state=idle" in page.url

    keys.go("^7d$")  # from #main, which a form keeps in the address
    keys.open("Enter")
    assert "from=now-7d" in page.url
    assert "state=idle" in page.url
    keys.skip_the_menu()
    keys.go("^Custom")
    keys.press("Space")
    keys.go("^From$", most=1)
    keys.press("Escape")
    assert keys.focus.startswith("Custom")
    keys.press("Enter")
    keys.go("^Or relative: from")
    page.keyboard.type("now-6h")
    keys.open("Enter")
    assert "from=now-6h" in page.url

    keys.go("^state idle ×$")
    keys.open("Enter")
    assert "state=" not in page.url


def test_the_palette_and_the_search_are_opened_walked_and_left_by_keys(engineer: Keyboard):
    keys, page = engineer, engineer.page
    keys.press("/")
    assert keys.focus == "Search everything"
    expect(page.locator("[data-enter]")).to_have_text("Enter searches")
    page.keyboard.type("gpu-0")
    page.wait_for_selector("[data-of='gpu-0'] [data-hit]")
    expect(page.locator("[data-enter]")).to_contain_text("Enter opens gpu-0")
    keys.go("gpu-02", by="ArrowDown", most=5)
    expect(page.locator("[data-enter]")).to_contain_text("Enter opens gpu-02")
    keys.press("2")
    assert keys.focus == "Search everything"
    assert page.input_value("#palette-text") == "gpu-02"
    keys.press("Escape")
    assert not page.is_visible("#palette")

    keys.press("Control+k")
    page.keyboard.type("gpu-0")
    assert page.input_value("#palette-text") == "gpu-0"
    page.wait_for_selector("[data-of='gpu-0'] [data-hit]")
    keys.go("gpu-02", by="ArrowDown", most=5)
    keys.open("Enter")
    assert page.url.endswith("/nodes/gpu-02")


@pytest.fixture
def link(starved: Finding, slack) -> str:
    """What Slack gives Vera to open."""
    return slack_link(slack)


def test_the_ml_engineer_gets_from_slack_to_mark_fixed_by_keys(
    tab: Tab, starved: Finding, link: str
):
    page = tab("vera")
    keys = Keyboard(page)
    page.goto(link)
    keys.skip_the_menu()
    keys.go("^Waits for its input")
    keys.open("Enter")
    assert f"/findings/{starved.pk}" in page.url

    keys.skip_the_menu()
    keys.go("^Snooze")
    keys.press("Enter")
    keys.go("day", most=1)
    keys.press("Escape")
    assert keys.focus.startswith("Snooze")
    keys.go("^Mark fixed$", by="Shift+Tab", most=3)
    keys.open("Enter")
    expect(page.locator("main")).to_contain_text("the next runs will show the effect")
    starved.refresh_from_db()
    assert starved.status == "fixed"


def test_each_key_of_the_savings_inbox_acts_on_the_row_that_j_goes_to(
    tab: Tab, empty_hub: str, starved: Finding
):
    keys = Keyboard(page := tab("ann"))
    wait_for_charts(page)
    keys.open("g", "i")
    keys.skip_the_menu()
    keys.go("^All$")
    keys.open("Enter")

    for key, says in {
        "t": "sent to ops",
        "i": "given to ann",
        "s": "snoozed",
        "a": "accepted",
        "e": "fixed",
    }.items():
        keys.press("j")
        assert keys.focus == "Waits for its input"
        keys.open(key)
        expect(page.locator("main")).to_contain_text(says)
    starved.refresh_from_db()
    assert starved.status == "fixed"
    assert starved.assignee.username == "ann"
