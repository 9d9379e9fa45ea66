"""A view is saved and found again in the menu of a page."""

import pytest
from playwright.sync_api import Browser

from tests.browser.sites import Watched, let_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_view_is_saved_and_found_in_the_menu_of_another_page(browser: Browser, small_site: str):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    let_in(context, small_site)
    watched = Watched(context.new_page())
    page = watched.page

    page.goto(f"{small_site}/jobs?from=now-24h&to=now&sort=cost")
    page.locator(".range summary", has_text="Views").click()
    page.get_by_label("Save this view as").fill("Dearest jobs")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/jobs?from=now-24h&to=now&sort=cost")

    page.goto(f"{small_site}/waste")
    page.locator(".range summary", has_text="Views").click()
    page.get_by_role("link", name="Dearest jobs").click()
    page.wait_for_url("**/jobs?from=now-24h&to=now&sort=cost")

    context.close()
    assert not watched.complaints, "\n".join(watched.complaints)
