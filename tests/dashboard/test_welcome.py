"""The way to the first node: a command, and the wait for what it sends."""

import re

import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


def text_of(response):
    return " ".join(response.content.decode().split())


def test_the_welcome_makes_a_command_only_when_asked(admin):
    assert "fw_" not in text_of(admin.get("/welcome"))

    page = text_of(admin.post("/welcome"))

    assert "install.sh | { echo FLEETWATCH_TOKEN=fw_" in page
    assert "Waiting for the first data" in page


def test_the_welcome_says_how_many_of_a_nodes_gpus_are_broken(admin):
    node = factories.node("new")
    for index in range(3):
        factories.gpu(node, index=index)
    lost = [[to_ms(factories.NOW) - HOUR_MS, None, "gpu_lost", False]]
    Posted.objects.create(gpu=GPU.objects.get(index=1), spans=[], outages=lost)

    page = " ".join(re.sub(r"<[^>]+>", "", text_of(admin.get("/welcome"))).split())

    assert "new ✓ 3 GPUs (1 broken)" in page


def test_where_nodes_report_already_the_welcome_waits_for_a_new_one(admin):
    factories.gpu(factories.node("old"))
    assert "old ✓ 1 GPU" in text_of(admin.get("/welcome"))

    page = text_of(admin.post("/welcome"))
    after = re.search(r"waiting\?after=(\d+)", page)[1]
    assert "Waiting for a new node’s data" in " ".join(page.split())
    assert "old ✓" not in page

    new = factories.node("new")
    assert "enrolled: new" in " ".join(
        text_of(admin.get(f"/welcome/waiting?after={after}")).split()
    )
    factories.gpu(new)
    arrived = text_of(admin.get(f"/welcome/waiting?after={after}"))
    assert "new ✓ 1 GPU" in arrived
    assert "old ✓" not in arrived


def test_a_viewer_makes_no_command(viewer):
    assert viewer.post("/welcome").status_code == 403


def test_the_waiting_line_ends_with_the_first_gpu(admin):
    assert "hx-trigger" in text_of(admin.get("/welcome/waiting"))
    factories.gpu(factories.node())

    page = text_of(admin.get("/welcome/waiting"))

    assert "hx-trigger" not in page
    assert "node-001 ✓ 1 GPU" in page
