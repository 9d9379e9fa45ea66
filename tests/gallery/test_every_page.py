"""Every page, wide and narrow, light and dark: no console error, no policy violation, no failed
request, no sideways scroll, nothing that axe finds to keep somebody out.

The fleet is an awkward one, for what is cut off or wrong; pictures are drawn of another
(draw_demo.py).
"""

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.sites import Watched, let_in, wait_for_charts

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).parents[2]
AXE = ROOT / ".venv/npm/node_modules/axe-core/axe.min.js"
OF_MAILS = ("/mail", "/messages/")  # they are shown as they are sent, without a page around them
NO_LANDMARKS = {rule: {"enabled": False} for rule in ("landmark-one-main", "region")}
THEMES = ("light", "dark")
SIZES = ((1280, 900), (390, 844))
SCROLLED = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# each with where it is, and what would have to hold there
VIOLATIONS = """async (off) => (await axe.run(document, {resultTypes: ["violations"], rules: off})).violations.flatMap(
    (rule) => rule.nodes.map((node) => `${rule.id} at ${node.target.join(" ")}: ${node.any[0]?.message ?? rule.help}`))"""


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_every_page_is_clean_and_keeps_nobody_out(
    browser: Browser,
    site,
    addresses,
    of_strangers,
    size,
    axe,
):
    viewport = {"width": size[0], "height": size[1]}
    member = browser.new_context(viewport=viewport)
    let_in(member, site)
    stranger = browser.new_context(viewport=viewport)

    complaints = [
        *complaints_of(Watched(member.new_page()), site, addresses.values(), axe),
        *complaints_of(Watched(stranger.new_page()), site, of_strangers.values(), axe),
    ]

    member.close()
    stranger.close()
    assert not complaints, "\n".join(complaints)


def complaints_of(watched: Watched, site: str, addresses: Iterable[str], axe: str) -> list[str]:
    """What is wrong with the pages, in both themes."""
    page = watched.page
    for address, theme in product(addresses, THEMES):
        page.emulate_media(color_scheme=theme)
        page.goto(f"{site}{address}")
        wait_for_charts(page)
        width = page.viewport_size["width"]
        watched.complaints += [f"{address} {theme} {width} {each}" for each in faults(page, axe)]
    return watched.complaints


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's text."""
    if not AXE.exists():
        pytest.fail(
            f"no axe-core at {AXE}: install npm, then deploy/bootstrap.py browser brings it"
        )
    return AXE.read_text()


def faults(page: Page, axe: str) -> list[str]:
    """What of the page is out of sight, or keeps somebody out."""
    scrolled = page.evaluate(SCROLLED)
    sideways = [f"scrolls {scrolled} px sideways"] if scrolled > 0 else []
    page.evaluate(axe)
    off = NO_LANDMARKS if any(part in page.url for part in OF_MAILS) else {}
    return [*sideways, *page.evaluate(VIOLATIONS, off)]
