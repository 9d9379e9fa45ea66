import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def _no_memory_of_attempts():
    cache.clear()


@pytest.fixture(autouse=True)
def _static_files_without_manifest(plain_static_files):
    """The browser tests serve the real ones."""
