"""A real browser on a real server with the collected static files and the real security policy."""

import os
from pathlib import Path

import pytest
from django.core.management import call_command
from playwright.sync_api import Browser, sync_playwright

from tests.browser.hubs import books, empty_hub, morning, starved, tab  # noqa: F401 - fixtures
from tests.browser.sites import live_server, site, small_site  # noqa: F401 - fixtures

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    """Ended with its file: while playwright runs, `asyncio.run` fails in the same thread."""
    path = Path(os.environ.get("FLEETWATCH_CHROMIUM", "/usr/bin/chromium"))
    if not path.exists():
        pytest.fail(
            f"no Chromium at {path}: install the package chromium, or set FLEETWATCH_CHROMIUM"
            " to one"
        )
    with sync_playwright() as playwright:
        chromium: Browser = playwright.chromium.launch(
            executable_path=str(path), args=list(ARGUMENTS)
        )
        # playwright's event loop lives in this thread; Django's ORM in the tests is used beside it,
        # not in it
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        yield chromium
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        chromium.close()


@pytest.fixture(scope="session")
def static_root(tmp_path_factory):
    """The static files as `manage.py up` collects them: hashed names, compressed."""
    from django.conf import settings

    root = tmp_path_factory.mktemp("static")
    before, settings.STATIC_ROOT = settings.STATIC_ROOT, str(root)
    call_command("collectstatic", interactive=False, verbosity=0)
    settings.STATIC_ROOT = before
    return root
