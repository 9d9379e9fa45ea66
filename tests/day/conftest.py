"""The day, lived once for all tests of it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import browser
from tests.day import story
from tests.day.nodes import story_nodes
from tests.day.site import running_site

__all__ = ["browser"]


@pytest.fixture(scope="module")
def told(browser: Browser) -> Iterator[story.Told]:
    nodes = story_nodes(story.SCENES, since=story.MONDAY)
    with running_site(browser, nodes, at=story.at("06:30"), history=story.MONDAY) as site:
        yield story.live(site)
