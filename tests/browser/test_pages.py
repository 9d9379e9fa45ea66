"""What only a browser can show: the keys, the theme switch, the copy button, what is cut off."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Browser, Page

from fleetwatch.alerts.models import Incident
from fleetwatch.dashboard.search_hits import Hit
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from tests.browser import narrow
from tests.browser.sites import let_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CUT = """() => [...document.querySelectorAll(".scroll")].filter(el => el.scrollWidth > el.clientWidth)
    .map(el => el.closest("section").querySelector("h2").innerText)"""

# where a hit's dollars end, and the palette; how high its words are, and a line of them
HIT_ROWS = """() => {
    const box = query => document.querySelector(query).getBoundingClientRect();
    const words = document.querySelector("#palette .hits a > .sub");
    const line = document.createRange();
    line.setStart(words.firstChild, 0);
    line.setEnd(words.firstChild, 1);
    return {
        right: box("#palette .hits .end").right, palette: box("#palette").right,
        words: words.getClientRects()[0].height, line: line.getBoundingClientRect().height,
    };
}"""


def test_tokens_jobs_histories_and_places_are_whole_without_scrolling_sideways(
    browser: Browser, small_site
):
    narrow.fill(datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    context = browser.new_context()
    let_in(context, small_site)
    page = context.new_page()
    cut = {}

    for address in (
        "/settings/agents",
        "/pricing",
        narrow.JOB,
        f"/gpus/{narrow.GPU_UUID}",
        "/gpus/GPU-node-001-0?range=7d",
        "/status",
        "/jobs",
        "/jobs?sort=memory",
        "/jobs?sort=time",
        "/explain",
    ):
        page.goto(f"{small_site}{address}")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            cut[address, width] = page.evaluate(CUT)

    context.close()
    assert len(cut) == 20
    assert {place: titles for place, titles in cut.items() if titles} == {}


@pytest.mark.parametrize("width", [390, 1280])
def test_a_slowed_machines_tables_are_whole_without_scrolling_sideways(opened, small_site, width):
    pk = narrow.slowed_finding(datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    opened.set_viewport_size({"width": width, "height": 844})

    opened.goto(f"{small_site}/findings/{pk}?from=now-7d")

    assert "before" in opened.locator("#spells").inner_text()
    assert opened.evaluate(CUT) == []


@pytest.fixture
def opened(browser: Browser, small_site):
    """A page without charts, of a logged-in admin in a light browser that lends its clipboard."""
    context = browser.new_context(
        color_scheme="light", permissions=["clipboard-read", "clipboard-write"]
    )
    let_in(context, small_site)
    page = context.new_page()
    page.goto(f"{small_site}/docs/states")
    yield page
    context.close()


def test_on_a_narrow_page_a_menu_says_where_one_is_and_leads_on_without_javascript(
    browser: Browser, small_site
):
    context = browser.new_context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    let_in(context, small_site)
    page = context.new_page()
    page.goto(f"{small_site}/jobs")
    assert page.inner_text(".topbar .here") == "Jobs"
    assert not page.is_visible("#rail")

    page.focus("text=Menu")
    page.keyboard.press("Enter")
    assert page.inner_text("#rail [aria-current]") == "Jobs"
    page.keyboard.press("Escape")
    assert not page.is_visible("#rail")
    page.click("text=Menu")
    page.click("#rail >> text=Definitions")

    assert page.url == f"{small_site}/docs/states"
    context.close()


def test_a_slash_opens_the_palette_and_g_j_goes_to_the_jobs(opened: Page, small_site):
    opened.keyboard.press("/")
    assert opened.evaluate("document.activeElement.id") == "palette-text"
    opened.keyboard.type("g j")
    assert opened.input_value("#palette-text") == "g j"

    opened.keyboard.press("Escape")
    opened.keyboard.press("g")
    opened.keyboard.press("j")

    opened.wait_for_url(f"{small_site}/jobs*")


def test_j_goes_to_an_incident_and_a_acknowledges_it(opened: Page, small_site):
    opened.goto(f"{small_site}/alerts")

    opened.keyboard.press("j")
    opened.keyboard.press("a")

    opened.wait_for_selector("text=1 acknowledged.")
    assert Incident.objects.latest("pk").state == "acknowledged"


def test_the_theme_switch_turns_dark_and_stays_dark(opened: Page, small_site):
    light = opened.evaluate("getComputedStyle(document.body).backgroundColor")

    opened.click("[data-theme-form] button")

    dark = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.goto(f"{small_site}/status")
    assert dark != light
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_the_install_command_is_copied_whole(opened: Page, small_site):
    opened.goto(f"{small_site}/settings/agents")
    opened.click("text=Create an install command")
    opened.wait_for_selector("[data-copy]")

    opened.click("[data-copy]")

    opened.wait_for_selector("text=Copied")
    command = opened.evaluate("navigator.clipboard.readText()")
    assert command == opened.inner_text("#secret").strip()
    assert command.startswith("curl -fsSL http")
    assert "FLEETWATCH_TOKEN=fw_" in command


def test_a_click_on_the_search_field_opens_the_palette(opened: Page, small_site):
    opened.click("#search")

    assert opened.is_visible("#palette")
    assert opened.evaluate("document.activeElement.id") == "palette-text"


def test_until_an_answer_comes_the_palette_is_busy_and_says_that_it_searches(opened, small_site):
    opened.route("**/search/quick?q=gpu*", lambda route: None)  # never answered
    opened.keyboard.press("Control+k")
    opened.wait_for_selector('#palette [data-of=""]')
    assert "Searching" not in opened.inner_text("#palette > .sub")

    opened.keyboard.type("gpu")

    assert opened.get_attribute("#palette [data-of]", "aria-busy") == "true"
    assert opened.inner_text("#palette > .sub").startswith("Searching…, Enter searches")


def test_a_long_hit_goes_on_in_a_second_line_of_the_palette_and_is_not_cut(opened, small_site):
    name = "Slowed by heat or power: a100-06"
    seen = "seen 19–25 Nov · open"
    saved = "could have been saved"
    hit = Hit("finding", name, "/findings/1", seen, finding_id=1, saved_words=saved)
    context = {
        "text": "slowed",
        "groups": [("finding", [hit], [hit])],
        "savings": {1: Saving(0, 0, Decimal("13.49"), Decimal("13.49"))},
        "clock_losses": {1: ClockLoss(held_ms=3_600_000, usd=Decimal("71.57"))},
    }
    part = render_to_string("dashboard/_search_hits.html", context)
    opened.route("**/search/quick?q=*", lambda route: route.fulfill(body=part))
    opened.keyboard.press("Control+k")

    opened.keyboard.type("slowed")
    opened.wait_for_selector("#palette .hits .end")

    assert "$13.49 could have been saved; ≤ $71.57 by the lower" in opened.inner_text("#palette")
    rows = opened.evaluate(HIT_ROWS)
    assert rows["right"] <= rows["palette"]
    assert rows["words"] < 2 * rows["line"]  # one line


def test_one_escape_closes_the_palette_also_with_text_in_it(opened: Page, small_site):
    opened.keyboard.press("Control+k")
    opened.keyboard.type("gpu")
    assert opened.is_visible("#palette")

    opened.keyboard.press("Escape")

    assert not opened.is_visible("#palette")
