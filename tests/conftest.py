import pytest


@pytest.fixture
def plain_static_files(settings):
    """Templates that need no collected manifest; the browser tests serve the real one."""
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
