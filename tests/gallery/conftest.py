from tests.browser.conftest import browser, live_server, site, static_root  # noqa: F401
