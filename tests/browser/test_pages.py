"""Every page, wide and light, narrow and dark: no console error, no policy violation, no failed
request, no sideways scroll.

And what only a browser can show: the keys, the theme switch, the copy button.
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page

from fleetwatch.accounts.models import User
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.costs.models import Rate
from tests.browser import narrow
from tests.dashboard import factories, fleet
from tests.reports import factories as reports

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGES = {
    "overview": "/",
    "overview-24h": "/?range=24h",
    "overview-days": "/?range=30d",
    "fleet": "/fleet",
    "fleet-util": "/fleet?metric=util",
    "node": "/nodes/node-001",
    "gpu": "/gpus/GPU-node-001-0",
    "jobs": "/jobs",
    "job": "/jobs/slurm/della/1000",
    "waste": "/waste?group_by=user",
    "findings": "/findings",
    "alerts": "/alerts",
    "rules": "/alerts/rules",
    "silences": "/alerts/silences",
    "routes": "/alerts/routes",
    "actions": "/alerts/actions",
    "cause": "/causes/small_batch",
    "reports": "/reports",
    "budgets": "/budgets",
    "budget": "/budgets/fleet",
    "table": "/charts/spend?range=24h&as=table",
    "status": "/status",
    "settings": "/settings",
    "rates-calculator": (
        "/settings/rates/calculator?server_usd=250000&gpus_per_server=8&years=4&gpu_w=600&host_w=1500&pue=1.3"
        "&usd_per_kwh=0.12&rack_usd_per_month=900&network_usd_per_month=300&staff_usd_per_month=500"
    ),
    "rates-import": "/settings/rates/import",
    "mappings": "/settings/mappings",
    "mappings-import": "/settings/mappings/import",
    "search": "/search?q=train",
    "definitions": "/docs/states",
    "api-docs": "/api/v1/docs",
    "welcome": "/welcome",
    "password": "/accounts/password/change/",
    "me": "/me",
    "people": "/settings/people",
    "people-import": "/settings/people/import",
    "people-rules": "/settings/people/rules",
    "audit": "/settings/audit",
    "second-factors": "/accounts/2fa/",
    "missing": "/nodes/nowhere",
}
LOOKS = (("light", 1280, 900), ("dark", 390, 844))


class Watched:
    """A page whose every complaint is kept."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def _console(self, message) -> None:
        # Chromium logs a page's own 404 as a console error; the page that is missing on purpose is
        # judged by its answer
        if message.type in ("error", "warning") and "404" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, request) -> None:
        # a poll that a navigation cut off is no failure
        if "ERR_ABORTED" not in (request.failure or ""):
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def _answered(self, response) -> None:
        if response.status >= 400 and "/nodes/nowhere" not in response.url:
            self.complaints.append(f"{response.status}: {response.url}")


@pytest.fixture
def site(settings, static_root, live_server, db):
    """The address of a server with a fleet in it, statements with figures wider than a narrow page,
    and somebody who can log in.
    """
    factories.user()
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    fleet.make(nodes=3, gpus=4, hours=48, now=now)
    Rate.objects.update(price_per_gpu_hour=2_490_000)
    reports.computed(f"{now - timedelta(hours=48):%Y-%m}", now=now)
    Rate.objects.update(price_per_gpu_hour="2.49")
    return live_server.url


@pytest.fixture
def live_server(settings, static_root, transactional_db):
    """pytest-django's server, with whitenoise and the manifest in place of Django's static
    handler.
    """
    from pytest_django.live_server_helper import LiveServer

    settings.STATIC_ROOT = str(static_root)
    settings.ALLOWED_HOSTS = ["*"]
    settings.INSTALLED_APPS = [
        app for app in settings.INSTALLED_APPS if app != "django.contrib.staticfiles"
    ]
    server = LiveServer("localhost")
    yield server
    server.stop()


def log_in(page: Page, site: str) -> None:
    page.goto(f"{site}/")
    page.fill("#id_login", "ann")
    page.fill("#id_password", factories.PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"{site}/")


def let_in(context: BrowserContext, site: str) -> None:
    """Ann's session, without the way through the log-in form."""
    client = Client()
    client.force_login(User.objects.get(username="ann"))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site}])


SCROLLED = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def wait_for_charts(page: Page) -> None:
    page.wait_for_function(
        """() => !document.querySelector("[hx-trigger=load]") && [...document.querySelectorAll("[data-figure-url]")].every(
            (el) => el.dataset.drawn || (el.figure && el.figure.data.length === 0))""",
        timeout=20_000,
        polling=50,  # ms; by default each frame, and each is painted
    )


def test_every_page_is_clean(browser: Browser, site):
    context = browser.new_context()
    watched = Watched(context.new_page())
    log_in(watched.page, site)
    addresses = (
        *PAGES.values(),
        f"/reports/{reports.newest('nlp-research').pk}/print",
        f"/alerts/rules/{Rule.objects.get(condition='job_idle').pk}?days=30",
        f"/incidents/{Incident.objects.latest('pk').pk}",
    )

    for scheme, width, height in LOOKS:
        watched.page.set_viewport_size({"width": width, "height": height})
        watched.page.emulate_media(color_scheme=scheme)
        for address in addresses:
            watched.page.goto(f"{site}{address}")
            wait_for_charts(watched.page)
            scrolled = watched.page.evaluate(SCROLLED)
            if scrolled > 0:
                watched.complaints.append(f"{address} scrolls {scrolled} px sideways at {width} px")

    context.close()
    assert watched.complaints == []


@pytest.fixture
def small_site(settings, static_root, live_server, db):
    """The address of a server with one GPU, for what does not depend on the data."""
    factories.user()
    fleet.make(
        nodes=1, gpus=1, hours=4, now=datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    )
    return live_server.url


CUT = """() => [...document.querySelectorAll(".scroll")].filter(el => el.scrollWidth > el.clientWidth)
    .map(el => el.closest("section").querySelector("h2").innerText)"""


def test_tokens_histories_and_places_are_whole_without_scrolling_sideways(
    browser: Browser, small_site
):
    narrow.fill(datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    context = browser.new_context()
    let_in(context, small_site)
    page = context.new_page()
    cut = {}

    for address in (
        "/settings",
        narrow.JOB,
        f"/gpus/{narrow.GPU_UUID}",
        "/gpus/GPU-node-001-0?range=7d",
        "/status",
    ):
        page.goto(f"{small_site}{address}")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            cut[address, width] = page.evaluate(CUT)

    context.close()
    assert len(cut) == 10
    assert {place: titles for place, titles in cut.items() if titles} == {}


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


def test_a_slash_goes_to_the_search_and_g_j_to_the_jobs(opened: Page, small_site):
    opened.keyboard.press("/")
    assert opened.evaluate("document.activeElement.id") == "search"
    opened.keyboard.type("g j")
    assert opened.input_value("#search") == "g j"

    opened.evaluate("document.activeElement.blur()")
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
    opened.goto(f"{small_site}/settings")
    opened.click("text=Make an install command")
    opened.wait_for_selector("[data-copy]")

    opened.click("[data-copy]")

    opened.wait_for_selector("text=Copied")
    command = opened.evaluate("navigator.clipboard.readText()")
    assert command == opened.inner_text("#secret").strip()
    assert command.startswith("curl -fsSL http")
    assert "FLEETWATCH_TOKEN=fw_" in command
