"""Every page on paper: nothing is folded, and nothing is cut or lies beside the sheet."""

import pytest
from playwright.sync_api import Browser

from tests.browser.sites import let_in, wait_for_charts

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAPER = {"width": 1047, "height": 710}  # A4, landscape, within the margins of the style sheet
FAULTS = """() => {
  const name = (el) => `${el.localName}.${el.className} ${el.textContent.trim().slice(0, 40)}`;
  const seen = (el) => el.checkVisibility({ visibilityProperty: true });
  const within = (el) => [...el.children].filter((each) => each.localName !== "summary");
  const folded = [...document.querySelectorAll("main details")].filter(seen)
    .filter((el) => within(el).some((each) => getComputedStyle(each).display !== "none" && !seen(each)));
  const cut = [...document.querySelectorAll("main *")].filter(seen)
    .filter((el) => getComputedStyle(el).overflowX !== "visible" && el.scrollWidth > el.clientWidth + 1)
    .filter((el) => !el.closest("svg, .sr, .js-plotly-plot"));
  const beside = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return [...folded.map((el) => `folded: ${name(el)}`), ...cut.map((el) => `cut: ${name(el)}`),
    ...(beside > 0 ? [`${beside} px beside the sheet`] : [])];
}"""


def test_on_paper_nothing_is_folded_or_cut(browser: Browser, site, addresses):
    context = browser.new_context(viewport=PAPER)
    let_in(context, site)
    page = context.new_page()
    page.emulate_media(media="print")
    faults = []

    for address in addresses.values():
        page.goto(f"{site}{address}")
        wait_for_charts(page)
        faults += [f"{address}: {fault}" for fault in page.evaluate(FAULTS)]

    context.close()
    assert not faults, "\n".join(faults)


def test_what_is_folded_is_open_while_it_is_printed_by_any_browser(browser: Browser, small_site):
    """Where the style sheet can't open it, the page's own script does."""
    context = browser.new_context()
    let_in(context, small_site)
    page = context.new_page()
    page.goto(f"{small_site}/me")
    closed = "() => document.querySelectorAll('main details:not([open], .picker, .menu, .confirm, .add)').length"

    before = page.evaluate(closed)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    on_paper = page.evaluate(closed)
    page.evaluate("dispatchEvent(new Event('afterprint'))")

    assert before > 0
    assert on_paper == 0
    assert page.evaluate(closed) == before
    context.close()
