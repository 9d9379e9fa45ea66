import gc
import os

import pytest
from django.conf import settings as django_settings

LIVING = ("tests/end_to_end/test_kill_nine.py", "tests/stack/test_up.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a living stack come first: one worker gets them all, so each stack starts once, and none is the last to run alone."""
    items.sort(key=lambda item: not item.nodeid.startswith(LIVING))


def pytest_collection_finish() -> None:
    """What all tests share (modules, the tests themselves) is not searched for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Passwords of tests are hashed quickly: the real way takes 0.3 s a user, by design."""
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def plain_static_files(settings):
    """Templates that need no collected manifest; the browser tests serve the real one."""
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
