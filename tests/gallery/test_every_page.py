"""Every page, wide and narrow, light and dark: no console error, no policy violation, no failed
request, no sideways scroll, nothing that axe finds to keep somebody out.

The fleet is an awkward one, for what is cut off or wrong; pictures are drawn of another
(draw_demo.py).
"""

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.job_links import add_link
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.actions.factories import a_policy
from tests.alerts import people
from tests.browser.sites import PAGES, Watched, let_in, wait_for_charts
from tests.diagnosis import told
from tests.notify.factories import email_channel
from tests.reports import factories as reports

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).parents[2]
AXE = ROOT / ".venv/npm/node_modules/axe-core/axe.min.js"
THEMES = ("light", "dark")
SIZES = ((1280, 900), (390, 844))
SCROLLED = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# each with where it is, and what would have to hold there
VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.flatMap(
    (rule) => rule.nodes.map((node) => `${rule.id} at ${node.target.join(" ")}: ${node.any[0]?.message ?? rule.help}`))"""


@pytest.fixture
def addresses(site) -> dict[str, str]:
    """Every page by name, those of rows by one that there is, with what a hub has in use: a
    finding, a channel and its route, a policy that acts.
    """
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    wasted = Job.objects.get(key="slurm/della/1000")
    for hours in (2, 3):
        on = GPU.objects.get(uuid="GPU-node-001-0")
        told.cause(of=wasted, on=on, start=now - timedelta(hours=hours))
    seen_ms = to_ms(now)
    finding = told.finding(wasted, first_ms=seen_ms - 3 * HOUR_MS, last_ms=seen_ms - HOUR_MS)
    rule = Rule.objects.get(condition="job_idle")
    policy = a_policy(rule)
    people.route("operators", email_channel(25))
    add_link("Logs", "https://logs.example/{job_id}")
    return PAGES | {
        "report-print": f"/reports/{reports.newest('nlp-research').pk}/print",
        "rule": f"/alerts/rules/{rule.pk}?days=30",
        "policy": f"/alerts/actions/{policy.pk}?days=30",
        "incident": f"/incidents/{Incident.objects.latest('pk').pk}",
        "finding": f"/findings/{finding.pk}",
        "explain": "/explain",
    }


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_every_page_is_clean_and_keeps_nobody_out(
    browser: Browser,
    site,
    addresses,
    size,
    axe,
):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    let_in(context, site)
    watched = Watched(context.new_page())

    for address, theme in product(addresses.values(), THEMES):
        watched.page.emulate_media(color_scheme=theme)
        watched.page.goto(f"{site}{address}")
        wait_for_charts(watched.page)
        where = f"{address} {theme} {size[0]}"
        watched.complaints += [f"{where} {each}" for each in faults(watched.page, axe)]

    context.close()
    assert not watched.complaints, "\n".join(watched.complaints)


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
    return [*sideways, *page.evaluate(VIOLATIONS)]
