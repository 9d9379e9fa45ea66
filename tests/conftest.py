import os

import pytest
from django.conf import settings as django_settings


def pytest_configure() -> None:
    """Passwords of tests are hashed quickly: the real way takes 0.3 s a user, by design."""
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def plain_static_files(settings):
    """Templates that need no collected manifest; the browser tests serve the real one."""
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
