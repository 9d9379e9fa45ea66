"""A GPU that moved: its page shows where it was, and an admin may say where it is."""

import pytest
from django.test import Client

from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]
NOW_MS = to_ms(NOW)


@pytest.fixture
def disputed():
    """GPU-1 is with gpu-01, and gpu-02 reports it too."""
    here = factories.gpu(
        factories.node("gpu-01"), uuid="GPU-1", first_ms=NOW_MS - HOUR_MS, last_ms=NOW_MS
    )
    there = factories.gpu(factories.node("gpu-02"), uuid="GPU-1", first_ms=None, last_ms=None)
    Stay.objects.create(
        gpu=here, uuid="GPU-1", first_ms=NOW_MS - HOUR_MS, last_ms=NOW_MS, is_believed=True
    )
    Stay.objects.create(
        gpu=there, uuid="GPU-1", first_ms=NOW_MS, last_ms=NOW_MS + 60_000, is_believed=False
    )
    return here, there


def test_its_page_and_the_status_page_say_who_reports_it(admin, disputed):
    page, status = admin.get("/gpus/GPU-1"), admin.get("/status")

    assert [(place.node, place.is_believed) for place in page.context["places"]] == [
        ("gpu-01", True),
        ("gpu-02", False),
    ]
    assert "It moved to gpu-02" in page.content.decode()
    assert [stay.gpu.node.name for stay in status.context["disputed"]] == ["gpu-02"]


def test_an_admin_says_that_it_moved(admin, disputed):
    answer = admin.post("/gpus/GPU-1/move", {"node": "gpu-02"}, follow=True)

    assert answer.status_code == 200
    assert "GPU-1 is with gpu-02" in answer.content.decode()
    assert GPU.objects.get(node__name="gpu-02").last_ms == NOW_MS + 60_000
    assert GPU.objects.get(node__name="gpu-01").retired_ms == NOW_MS


def test_a_node_that_does_not_report_it_is_told_so(admin, disputed):
    answer = admin.post("/gpus/GPU-1/move", {"node": "gpu-03"}, follow=True)

    assert (
        "No windows of &#x27;GPU-1&#x27; from the node &#x27;gpu-03&#x27; wait to be believed."
        in answer.content.decode()
    )


def test_a_viewer_may_not_say_it_and_a_stranger_logs_in(viewer, disputed):
    assert viewer.post("/gpus/GPU-1/move", {"node": "gpu-02"}).status_code == 403
    assert Client().post("/gpus/GPU-1/move", {"node": "gpu-02"}).status_code == 302
    assert "It moved to" not in viewer.get("/gpus/GPU-1").content.decode()
    assert Stay.objects.filter(is_believed=False).exists()
