"""A drag over a chart is the page's range, as an address; it leads back, and Escape closes what
hangs open.
"""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.sites import Watched, let_in, wait_for_charts

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PLOT = '[data-figure-url*="/charts/spend"] .nsewdrag'


@pytest.fixture
def opened(browser: Browser, site: str):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    let_in(context, site)
    watched = Watched(context.new_page())
    watched.page.goto(f"{site}/overview?range=24h")
    wait_for_charts(watched.page)
    yield watched.page
    context.close()
    assert not watched.complaints, "\n".join(watched.complaints)


def drag(page: Page, start: float, end: float) -> dict[str, list[str]]:
    """What the address asks for after a drag over these shares of the chart."""
    page.locator(PLOT).scroll_into_view_if_needed()
    box = page.locator(PLOT).bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=8)
    with page.expect_navigation():
        page.mouse.up()
    wait_for_charts(page)
    return parse_qs(urlsplit(page.url).query)


def test_a_drag_makes_whole_hours_the_range_and_reset_and_a_double_click_lead_back(opened: Page):
    first = drag(opened, 0.3, 0.6)
    second = drag(opened, 0.3, 0.7)

    assert set(first) == {"from", "to"}
    for end in (*first.values(), *second.values()):
        assert end[0].endswith(":00:00")
    assert first["from"] <= second["from"] < second["to"] <= first["to"]
    assert opened.locator("[data-reset]").is_visible()

    opened.locator(PLOT).dblclick(position={"x": 40, "y": 20})
    opened.wait_for_url("**/overview?range=24h")
    wait_for_charts(opened)
    assert not opened.locator("[data-reset]").is_visible()

    drag(opened, 0.2, 0.5)
    opened.get_by_text("Reset zoom").click()
    opened.wait_for_url("**/overview?range=24h")


def test_a_click_on_a_part_of_a_bar_opens_what_it_is_made_of(opened: Page):
    plot = opened.locator(PLOT)
    box = plot.bounding_box()
    place = {"x": box["width"] / 2, "y": box["height"] - 4}
    plot.hover(position=place)
    plot.click(position=place)

    opened.wait_for_url("**/costs?group_by=team&state=*&from=*&to=*")


def test_no_two_ticks_of_days_read_the_same_and_none_names_an_hour(opened: Page):
    opened.goto(opened.url.replace("24h", "30d"))
    wait_for_charts(opened)

    ticks = opened.locator('[data-figure-url*="/charts/spend"] .xtick').all_text_contents()
    assert ticks
    assert len(set(ticks)) == len(ticks)
    assert not any(":" in tick for tick in ticks)


def test_a_custom_range_is_chosen_in_fields_and_escape_closes_it(opened: Page):
    opened.get_by_text("Custom").click()
    opened.get_by_label("From", exact=True).fill("2026-11-10T08:00")
    opened.keyboard.press("Escape")

    assert not opened.locator(".pop").first.is_visible()

    opened.get_by_text("Custom").click()
    opened.get_by_label("To", exact=True).first.fill("2026-11-10T20:00")
    opened.get_by_role("button", name="Apply").first.click()
    opened.wait_for_url("**from=2026-11-10T08%3A00&to=2026-11-10T20%3A00")

    assert "10 Nov 2026, 08:00 – 20:00" in opened.locator(".range summary").first.inner_text()
