"""What a browser is told of what it shows already: unchanged, or made anew."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.operations.models import JobRun
from tests.dashboard import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]

LIVE = (
    *("/", "/fleet", "/fleet/idle", "/nodes/node-001", "/gpus/GPU-node-001-0"),
    *("/jobs", "/jobs/slurm/della/4711", "/findings", "/alerts", "/status"),
    *("/agents", "/agents/node-001", "/costs", "/waste", "/capacity"),
)
# in which nothing is kept, not even to be asked about
NEVER_KEPT = ("/me", "/budgets", "/budgets/fleet", "/teams", "/reports")


@pytest.fixture
def clock():
    with time_machine.travel(factories.NOW, tick=False) as clock:
        yield clock


@pytest.fixture
def reader(clock, client, small):
    client.force_login(factories.user(username="lee"))
    return client


@pytest.fixture
def small():
    factories.job("slurm/della/4711")
    return factories.gpu(factories.node("node-001"))


def version_of(reader, address):
    return re.search(r'data-version="(\w+)"', reader.get(address).content.decode())[1]


def asked_again(reader, address, version):
    return reader.get(address, headers={"If-None-Match": f'W/"{version}"'})


@pytest.mark.parametrize("address", LIVE)
def test_a_live_page_that_nothing_changed_is_not_made_again(reader, address):
    version = version_of(reader, address)

    again = asked_again(reader, address, version)

    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == f'W/"{version}"'
    assert again["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize("address", NEVER_KEPT)
def test_so_is_one_of_which_no_copy_is_kept(reader, address):
    version = version_of(reader, address)

    again = asked_again(reader, address, version)

    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("address", [*LIVE, *NEVER_KEPT])
def test_a_live_page_says_of_when_it_is(reader, address):
    assert "data-as-of=" in reader.get(address).content.decode()


def test_a_page_that_somebody_opens_or_reloads_is_always_made(reader):
    opened = reader.get("/jobs")

    assert "ETag" not in opened
    assert opened["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(("later_s", "status"), [(59, 304), (60, 200)])
def test_a_version_holds_until_its_minute_is_over(reader, clock, later_s, status):
    assert factories.NOW.second == 0
    version = version_of(reader, "/jobs")

    clock.shift(timedelta(seconds=later_s))

    assert asked_again(reader, "/jobs", version).status_code == status


def test_what_somebody_does_ends_the_version_at_once(reader):
    version = version_of(reader, "/alerts")

    record("incident.acknowledge", "node-001")

    assert asked_again(reader, "/alerts", version).status_code == 200


@pytest.mark.parametrize(
    ("name", "ok", "status"),
    [
        ("alerts.evaluate", True, 200),
        ("alerts.evaluate", None, 304),
        ("telemetry.seal", True, 304),
    ],
    ids=["over", "running-still", "another-task"],
)
def test_an_evaluation_of_alerts_ends_the_version_when_it_is_over(reader, name, ok, status):
    version = version_of(reader, "/alerts")

    JobRun.objects.create(name=name, started_at=timezone.now(), ok=ok)

    assert asked_again(reader, "/alerts", version).status_code == status


def test_a_version_is_of_one_address_and_one_reader(reader, client):
    version = version_of(reader, "/jobs")

    assert asked_again(reader, "/jobs?sort=cost", version).status_code == 200
    client.force_login(factories.user(username="kim"))
    assert asked_again(client, "/jobs", version).status_code == 200


def test_a_stranger_is_told_to_log_in_whatever_version_they_name(reader, client):
    version = version_of(reader, "/jobs")
    client.logout()

    assert asked_again(client, "/jobs", version).status_code == 302


def test_a_figure_is_kept_by_the_browser_and_asked_about(reader):
    first = reader.get("/charts/spend")

    again = reader.get("/charts/spend", headers={"If-None-Match": first["ETag"]})

    assert first["Cache-Control"] == "private, no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert reader.get("/charts/fleet", headers={"If-None-Match": first["ETag"]}).status_code == 200


@pytest.mark.parametrize("tag", ['W/""', '"*"', "nonsense"])
def test_a_page_without_a_version_is_made_whatever_is_named(reader, tag):
    assert reader.get("/docs/glossary", headers={"If-None-Match": tag}).status_code == 200
