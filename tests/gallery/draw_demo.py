"""Pictures of every page of a demo hub, wide and narrow, light and dark, with an index: `make
screenshots`.

The fixture that checks the pages (test_every_page.py) is made to be awkward: figures wider than a
narrow page, agents that fell silent, a finding without a run. A newcomer who looks at pictures
wants one story: here it is the simulated fleet, drawn, judged and diagnosed as a hub does it, up to
the moment in which a page is drawn.
"""

import os
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.costs.services import ensure_example_rates
from fleetwatch.costs.tasks import attribute_changed
from fleetwatch.demo import loading, services
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import services as ledger
from fleetwatch.telemetry import matrices
from tests.browser.sites import PAGES, let_in, wait_for_charts
from tests.dashboard import factories
from tests.reports import factories as reports

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

THEMES = ("light", "dark")
SIZES = ((1280, 900), (390, 844))
GPUS = 32
MAX_HOURS = 2000
CELLS = 200  # of the heat map
FRESH_FOR = timedelta(seconds=60)


@pytest.fixture
def demo_site(settings, static_root, live_server, db) -> str:
    """The address of a hub with the demo's fleet and its three days, and somebody who can log in."""
    factories.user()
    loading.mark_hub()
    while services.keep_going(datetime.now(UTC), gpus=GPUS)["batches"]:
        pass
    now = datetime.now(UTC)
    matrices.refresh_recent(now, count=CELLS)
    ensure_example_rates(now)
    live_on(now)
    reports.computed(f"{now:%Y-%m}", now=now)
    return live_server.url


def live_on(now: datetime) -> None:
    """What workers would do of what came meanwhile."""
    services.keep_going(now, gpus=GPUS)
    attribute_changed()
    ledger.post(now, MAX_HOURS)
    diagnose(now, MAX_HOURS)
    announcing.run(now)


def addresses() -> dict[str, str]:
    """The pages that are checked, of the demo's own rows."""
    gpu = GPU.objects.select_related("node").order_by("node__name", "index")[0]
    finding = Finding.objects.exclude(job=None).order_by("-last_ms")[0]
    node = gpu.node.name
    return PAGES | {
        "budget-team": f"/budgets/teams/{finding.job.account}",
        "report": f"/reports/{reports.newest().pk}",
        "fleet-table": f"/fleet?view=table&open={node}",
        "node": f"/nodes/{node}",
        "agent": f"/agents/{node}",
        "gpu": f"/gpus/{gpu.uuid}",
        "job": f"/jobs/{finding.job.key}",
        "team-month": f"/teams/{finding.job.account}",
        "rule": f"/alerts/rules/{Rule.objects.get(condition='job_idle').pk}?days=30",
        "report-print": f"/reports/{reports.newest(finding.job.account).pk}/print",
        "incident": f"/incidents/{Incident.objects.latest('pk').pk}",
        "finding": f"/findings/{finding.pk}",
        "explain": f"/explain?job={finding.job.key}",
    }


def test_every_page_of_the_demo_is_drawn(browser: Browser, demo_site: str):
    folder = Path(os.environ.get("FLEETWATCH_GALLERY", "gallery"))
    folder.mkdir(parents=True, exist_ok=True)
    alive_at = datetime.now(UTC)

    for width, height in SIZES:
        context = browser.new_context(viewport={"width": width, "height": height})
        let_in(context, demo_site)
        page = context.new_page()
        for (name, address), theme in product(addresses().items(), THEMES):
            if datetime.now(UTC) - alive_at > FRESH_FOR:
                alive_at = datetime.now(UTC)
                live_on(alive_at)
            draw(page, f"{demo_site}{address}", theme, folder / f"{name}-{theme}-{width}.png")
        context.close()

    write_index(folder)


def draw(page: Page, address: str, theme: str, picture: Path) -> None:
    page.emulate_media(color_scheme=theme)
    answer = page.goto(address)
    assert answer is not None, address
    assert answer.status < 500, address
    wait_for_charts(page)
    page.screenshot(path=picture, full_page=True)


def write_index(folder: Path) -> None:
    """All pictures that are in the folder, one below the other."""
    names = sorted(picture.stem for picture in folder.glob("*.png"))
    shown = [f'<h2>{name}</h2><img loading="lazy" src="{name}.png">' for name in names]
    head = "<!doctype html><title>FleetWatch, page by page</title>"
    (folder / "index.html").write_text(head + "".join(shown))
