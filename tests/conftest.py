import gc
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.contenttypes.management import create_contenttypes
from django.db.backends.postgresql.operations import DatabaseOperations
from django.db.migrations.state import ProjectState
from django.db.models.signals import post_migrate
from django.template import Context, Template
from django.test import utils as test_utils
from django.test.signals import template_rendered
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.notify.fake_slack_api import FakeSlackAPI
from tests.notify.fakes import FakeSlack, FakeSMTP
from tests.stack.living import Living, living_stack

# This is the first conftest read; those of the folders import models.
IS_DJANGO_READY = apps.ready
RELOAD_MODEL = ProjectState.reload_model


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the living stack come first: one worker gets them all, so it is made once, and none
    is the last to run alone.
    """
    items.sort(key=lambda item: "stack" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def living() -> Iterator[Living]:
    """One stack for all tests of one: a first start takes as long as a hundred tests."""
    with living_stack() as stack:
        yield stack


@pytest.fixture
def stack(living: Living) -> Living:
    """A stack that runs, whatever a test before did to it."""
    if not living.is_running:
        living.start()
    return living


def pytest_collection_finish() -> None:
    """What all tests share (modules, the tests themselves) is not searched for garbage again and
    again, and what one leaves is searched seldom.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def deleted(operations: DatabaseOperations, _style: Any, tables: list[str], **_: bool) -> list[str]:
    """Statements that empty all tables after a test with transactions of its own: in a millisecond,
    where to truncate them takes fifty.
    """
    deletes = [f"DELETE FROM {operations.quote_name(table)}" for table in tables]
    return ["SET session_replication_role = replica", *deletes, "RESET session_replication_role"]


def rendered(template: Template, context: Context) -> str:
    """The template's text. Its context is kept for the tests (`answer.context`) where it is that
    of a page: Django's own way copies the one of each part of the page too, a twentieth of the
    time that a page takes.
    """
    if context.template is template:
        template_rendered.send(sender=template, template=template, context=context)
    return template.nodelist.render(context)


def reloaded(state: ProjectState, app_label: str, model_name: str, delay: bool = False) -> None:
    """Renders the models beside one that a migration changed anew: not, as Django's own way does,
    all that are connected with it by any number of steps, which takes half of the time that the
    tests' database takes. A stack that tests start is migrated in Django's own way.
    """
    RELOAD_MODEL(state, app_label, model_name, delay=True)


def pytest_configure() -> None:
    """Passwords of tests are hashed quickly: the real way takes 0.3 s a user, by design. Django's
    permissions and content types, which nobody reads here, are not made anew each time that a
    test's tables are emptied: with other ids than those that a test with `serialized_rollback`
    brings back. No property fails because the machine is busy.
    """
    django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)
    DatabaseOperations.sql_flush = deleted
    test_utils.instrumented_test_render = rendered
    ProjectState.reload_model = reloaded
    hypothesis_settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    hypothesis_settings.load_profile("untimed")


@pytest.fixture
def plain_static_files(settings):
    """Templates that need no collected manifest; the browser tests serve the real one."""
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    server = FakeSlack()
    yield server
    server.stop()


@pytest.fixture
def slack_api() -> Iterator[FakeSlackAPI]:
    server = FakeSlackAPI()
    yield server
    server.stop()


@pytest.fixture
def smtp() -> Iterator[FakeSMTP]:
    server = FakeSMTP()
    yield server
    server.stop()
