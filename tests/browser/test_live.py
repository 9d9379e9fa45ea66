"""A page that is looked at follows what happens, and nothing that its reader did on it jumps."""

import re

import pytest
from playwright.sync_api import Browser, Page, Route

from fleetwatch.accounts.audit import record
from fleetwatch.alerts.models import Incident
from tests.browser.sites import let_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture
def opened(browser: Browser, small_site):
    """The inbox of a fleet with an open incident."""
    context = browser.new_context(viewport={"width": 1280, "height": 500})
    let_in(context, small_site)
    page = context.new_page()
    page.goto(f"{small_site}/alerts")
    yield page
    context.close()


def answer(page: Page) -> int:
    """The status with which the hub answers the page's next question."""
    with page.expect_response(lambda response: response.url.endswith("/alerts")) as asked:
        page.evaluate(LOOK_AGAIN)
    return asked.value.status


def test_what_changed_is_put_in_and_what_the_reader_did_stays(opened: Page):
    opened.check("[data-row] input[type=checkbox]")
    opened.evaluate(
        "document.querySelectorAll('main details').forEach((each) => { each.open = true })"
    )
    details = opened.locator("main details[open]").count()
    opened.evaluate("document.querySelector('[data-row]').isTheSame = true")
    opened.focus("#search")
    opened.evaluate("scrollTo(0, 120)")
    scrolled = opened.evaluate("scrollY")
    Incident.objects.update(muted="the owner was called")
    record("incident.acknowledge", "somebody else did")

    status = answer(opened)

    opened.wait_for_selector("main >> text=the owner was called")
    assert status == 200
    assert opened.is_checked("[data-row] input[type=checkbox]")
    assert opened.locator("main details[open]").count() == details
    assert opened.evaluate("document.querySelector('[data-row]').isTheSame")
    assert opened.evaluate("document.activeElement.id") == "search"
    assert opened.evaluate("scrollY") == scrolled


def without_names(route: Route) -> None:
    """The page with sections that only their words tell apart."""
    response = route.fetch()
    body = re.sub(r'(<section[^>]*) id="[^"]*"', r"\1", response.text())
    route.fulfill(response=response, body=body)


def test_what_came_above_it_closes_nothing_that_is_open(opened: Page):
    opened.route("**/me", without_names)
    opened.goto(opened.url.replace("/alerts", "/me"))
    opened.evaluate("""
        const folded = document.querySelector("main section + section details:not([open])");
        folded.open = true;
        folded.isOf = folded.closest("section").querySelector("h2").textContent;
        folded.closest("section").previousElementSibling.remove();
    """)
    sections = opened.locator("main section").count()
    record("budget.set", "somebody else did")

    with opened.expect_response(lambda response: response.url.endswith("/me")) as answered:
        opened.evaluate(LOOK_AGAIN)

    assert answered.value.status == 200
    opened.locator("main section").nth(sections).wait_for()
    assert opened.evaluate("""
        [...document.querySelectorAll("main details")].filter((each) => each.isOf).map((each) =>
            each.open && each.isOf === each.closest("section").querySelector("h2").textContent)
    """) == [True]


def test_while_a_form_is_filled_in_nothing_is_put_in_and_then_it_goes_on(opened: Page):
    incident = f"/incidents/{Incident.objects.get().pk}"
    opened.goto(opened.url.replace("/alerts", incident))
    asked = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.get_by_text("More about this incident").click()
    reason = opened.locator("#why-not")

    reason.fill("a demo for a customer")
    opened.evaluate(LOOK_AGAIN)
    opened.evaluate("document.activeElement.blur()")
    opened.evaluate(LOOK_AGAIN)
    opened.wait_for_timeout(300)
    assert [url for url in asked if url.endswith(incident)] == []

    reason.fill("")
    opened.evaluate("document.activeElement.blur()")
    with opened.expect_response(lambda response: response.url.endswith(incident)) as answered:
        opened.evaluate(LOOK_AGAIN)
    assert answered.value.status in (200, 304)


def test_a_page_without_news_is_not_sent_again_and_says_that_it_is_fresh(opened: Page):
    opened.evaluate("document.querySelector('[data-as-of] time').textContent = 'long ago'")

    statuses = {answer(opened), answer(opened)}

    assert 304 in statuses
    opened.wait_for_function(
        r"/^\d\d:\d\d:\d\d$/.test(document.querySelector('[data-as-of] time').textContent)"
    )


def test_a_hidden_page_asks_nothing(opened: Page):
    asked = []
    opened.on("request", lambda request: asked.append(request.url))

    opened.evaluate("Object.defineProperty(document, 'hidden', { value: true }); " + LOOK_AGAIN)
    opened.wait_for_timeout(300)

    assert [url for url in asked if url.endswith("/alerts")] == []


def test_a_page_whose_hub_is_gone_says_so_and_keeps_what_it_shows(opened: Page):
    opened.route("**/alerts", lambda route: route.abort())

    opened.evaluate(LOOK_AGAIN)

    opened.wait_for_selector("[data-as-of] .dot.warn")
    assert opened.locator("[data-row]").count() == 1
