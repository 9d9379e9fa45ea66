"""Tables in a real browser: lines of one height, heads that stay in sight."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser

from fleetwatch.jobs.models import Job
from tests.browser import narrow
from tests.browser.keyboard import Keyboard
from tests.browser.sites import let_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROW_PX = 36
HEIGHTS = """() => [...document.querySelectorAll(".jobs tbody tr")]
    .map(row => row.getBoundingClientRect().height)"""
HEAD_TOP = """() => document.querySelector(".jobs thead th").getBoundingClientRect().top"""
MORE_ROWS = """() => {
    const rows = document.querySelector(".jobs tbody");
    for (let n = 0; n < 60; n++) rows.append(rows.firstElementChild.cloneNode(true)); }"""
# of each job's name whether its last letter lies in its cell
NAME_ENDS = """() => [...document.querySelectorAll(".jobs td.job > a")].map(name => {
    const end = document.createRange();
    end.setStart(name.lastChild, name.lastChild.length - 1);
    end.setEnd(name.lastChild, name.lastChild.length);
    const [letter, cell] = [end, name.parentElement].map(it => it.getBoundingClientRect());
    return letter.width > 0 && letter.right <= cell.right && letter.bottom <= cell.bottom; })"""
IS_CUT = """() => {
    const box = document.querySelector(".jobs").closest(".scroll");
    return box.scrollWidth > box.clientWidth; }"""


@pytest.fixture
def jobs_page(browser: Browser, small_site):
    """The jobs, one with a long name, a long state and dollars of underused time."""
    narrow.fill(datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    Job.objects.filter(user="ann").update(state="OUT_OF_MEMORY", name="long-name-of-a-run-" * 6)
    context = browser.new_context()
    let_in(context, small_site)
    page = context.new_page()
    page.goto(f"{small_site}/jobs")
    yield page
    context.close()


@pytest.mark.parametrize("width", [1100, 1280, 1440, 1680])
def test_a_job_is_one_line_and_the_heads_stick_however_far_one_scrolls(jobs_page, width):
    jobs_page.set_viewport_size({"width": width, "height": 300})
    jobs_page.wait_for_selector(".scroll[data-fits] .jobs")
    heights = jobs_page.evaluate(HEIGHTS)
    jobs_page.evaluate(MORE_ROWS)
    jobs_page.evaluate(
        "() => document.querySelector('.jobs tbody tr:nth-child(40)').scrollIntoView()"
    )

    assert len(heights) >= 2
    assert max(heights) <= ROW_PX
    assert jobs_page.evaluate(HEAD_TOP) == 0
    assert not jobs_page.evaluate(IS_CUT)


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_names_that_differ_at_their_ends_are_told_apart(jobs_page, width):
    """Of a name that is longer than its column the middle is left out."""
    jobs_page.set_viewport_size({"width": width, "height": 800})

    ends = jobs_page.evaluate(NAME_ENDS)

    assert len(ends) >= 2
    assert all(ends)


@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_a_job_has_its_bar_of_states_on_a_phone_and_on_a_laptop(jobs_page, width):
    jobs_page.set_viewport_size({"width": width, "height": 800})

    assert jobs_page.locator(".jobs tbody td.barcell").first.is_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_figure_has_what_was_wasted_of_its_parts_on_a_phone_too(jobs_page, small_site, width):
    jobs_page.goto(f"{small_site}/explain")
    jobs_page.set_viewport_size({"width": width, "height": 800})

    head = jobs_page.get_by_role("columnheader", name="Wasted")
    assert head.is_visible()
    assert head.bounding_box()["x"] + head.bounding_box()["width"] <= width


@pytest.mark.parametrize("width", [390, 1280])
def test_a_line_that_keys_go_back_to_is_not_behind_the_heads(jobs_page, width):
    jobs_page.set_viewport_size({"width": width, "height": 300})
    jobs_page.evaluate(MORE_ROWS)
    jobs_page.evaluate("() => document.querySelector('.jobs tbody tr:nth-child(40) a').focus()")
    keys = Keyboard(jobs_page)

    for _ in range(30):
        keys.press("Shift+Tab")
        assert keys.focus
