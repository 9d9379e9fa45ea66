"""Servers with a fleet that a browser looks at, each page by name, and who looks."""

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import BrowserContext, Page

from fleetwatch.accounts.models import User
from fleetwatch.costs.models import Rate
from tests.dashboard import factories, fleet
from tests.reports import factories as reports

PAGES = {
    "overview": "/",
    "overview-24h": "/?range=24h",
    "overview-days": "/?range=30d",
    "fleet": "/fleet",
    "fleet-waste": "/fleet?metric=waste&sort=name",
    "idle": "/fleet/idle",
    "fleet-grid": "/fleet?view=grid",
    "fleet-table": "/fleet?view=table&open=node-001",
    "capacity": "/capacity",
    "what-if": "/capacity/what-if?less=8&less_of=H100+SXM",
    "node": "/nodes/node-001",
    "gpu": "/gpus/GPU-node-001-0",
    "jobs": "/jobs",
    "job": "/jobs/slurm/della/1000",
    "waste": "/waste?group_by=user",
    "costs": "/costs?range=24h&group_by=user",
    "findings": "/findings",
    "alerts": "/alerts",
    "rules": "/alerts/rules",
    "silences": "/alerts/silences",
    "routes": "/alerts/routes",
    "actions": "/alerts/actions",
    "causes": "/causes",
    "cause": "/causes/small_batch",
    "reports": "/reports",
    "budgets": "/budgets",
    "teams": "/teams",
    "budget": "/budgets/fleet",
    "budget-team": "/budgets/teams/nlp-research",
    "table": "/charts/spend?range=24h&as=table",
    "status": "/status",
    "agents": "/agents",
    "agent": "/agents/node-001",
    "settings": "/settings",
    "settings-general": "/settings/general",
    "pricing": "/pricing",
    "agents-tokens": "/settings/agents",
    "channels": "/settings/channels",
    "api-tokens": "/settings/tokens",
    "job-links": "/settings/links",
    "months": "/settings/months",
    "retention": "/settings/retention",
    "policy-preview": "/settings/policy",
    "glossary": "/docs/glossary",
    "team-month": "/teams/nlp-research",
    "rates-calculator": (
        "/pricing/calculator?server_usd=250000&gpus_per_server=8&years=4&gpu_w=600&host_w=1500&pue=1.3"
        "&usd_per_kwh=0.12&rack_usd_per_month=900&network_usd_per_month=300&staff_usd_per_month=500"
    ),
    "rates-import": "/pricing/import",
    "mappings": "/settings/mappings",
    "mappings-import": "/settings/mappings/import",
    "search": "/search?q=train",
    "definitions": "/docs/states",
    "api-docs": "/api/v1/docs",
    "welcome": "/welcome",
    "device": "/device",
    "password": "/accounts/password/change/",
    "me": "/me",
    "views": "/v",
    "people": "/settings/people",
    "people-import": "/settings/people/import",
    "people-rules": "/settings/people/rules",
    "audit": "/settings/audit",
    "second-factors": "/accounts/2fa/",
    "missing": "/nodes/nowhere",
}


# htmx's words for a request that a navigation cut off; one that failed it calls `htmx:sendError`
CUT_OFF = ("htmx:afterRequest", "htmx:sendAbort")


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
        if message.text.startswith(CUT_OFF):
            return
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


def let_in(context: BrowserContext, site: str, username: str = "ann") -> None:
    """The user's session, without the way through the log-in form."""
    client = Client()
    client.force_login(User.objects.get(username=username))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site}])


def wait_for_charts(page: Page) -> None:
    page.wait_for_function(
        """() => !document.querySelector("[hx-trigger=load]") && [...document.querySelectorAll("[data-figure-url]")].every(
            (el) => el.dataset.drawn || (el.figure && el.figure.data.length === 0))""",
        timeout=20_000,
        polling=50,  # ms; by default each frame, and each is painted
    )


@pytest.fixture
def small_site(settings, static_root, live_server, db):
    """The address of a server with one GPU, for what does not depend on the data."""
    factories.user()
    fleet.make(
        nodes=1, gpus=1, hours=4, now=datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    )
    return live_server.url
