"""The GPU's page says what it draws at idle and how that is known; an admin may set it."""

import pytest
from django.urls import reverse

from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import IdlePower
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.dashboard import factories
from tests.dashboard.factories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]
NOW_MS = to_ms(NOW)


@pytest.fixture
def unknown():
    """A GPU of a model that nobody knows."""
    model = GPUModel.objects.create(name="RTX 9999")
    return factories.gpu(
        factories.node("gpu-01"),
        uuid="GPU-1",
        model=model,
        first_ms=NOW_MS - HOUR_MS,
        last_ms=NOW_MS,
    )


def shown(client):
    return " ".join(client.get("/gpus/GPU-1").content.decode().split())


def test_what_is_not_known_is_said_and_what_follows_from_it(viewer, unknown):
    assert "not known" in shown(viewer)
    assert "busy, unverified" in shown(viewer)


def test_what_was_learned_is_shown_with_count_and_time(viewer, unknown):
    IdlePower.objects.create(
        gpu=unknown,
        from_ms=0,
        watts=21.5,
        readings=90,
        condition="free",
        first_ms=NOW_MS - HOUR_MS,
        last_ms=NOW_MS,
        created_at=NOW,
    )

    assert "learned: 5th percentile of 90 readings while free" in shown(viewer)
    assert viewer.get("/api/v1/gpus/GPU-1").json()["idle_power"]["watts"] == 21.5


def test_an_admin_sets_it_and_its_open_hours_are_judged_again(admin, unknown):
    answer = admin.post("/gpus/GPU-1/idle-power", {"watts": "62.5"}, follow=True)

    assert "Idle power set to 62.5 W" in answer.content.decode()
    assert "set by" in shown(admin)
    assert [(row.watts, row.readings) for row in IdlePower.objects.all()] == [(62.5, 0)]
    assert TouchedHour.objects.exists()


@pytest.mark.parametrize("text", ["", "62,5", "<b>", "nan", "-1", "9" * 400])
def test_what_is_no_wattage_is_refused_in_words(admin, unknown, text):
    answer = admin.post("/gpus/GPU-1/idle-power", {"watts": text}, follow=True)

    assert answer.status_code == 200
    assert "an idle power is" in answer.content.decode()
    assert not IdlePower.objects.exists()


def test_a_viewer_may_not_set_it(viewer, unknown):
    assert viewer.post("/gpus/GPU-1/idle-power", {"watts": "62.5"}).status_code == 403
    assert "judge its open hours anew" not in shown(viewer)


def test_what_is_only_utilisation_has_a_label_of_its_own_in_bar_and_legend(viewer, unknown):
    for gpu_ms, source in ((3_000_000, "none"), (600_000, "sensors")):
        row = factories.entry(unknown, hours_ago=2, gpu_ms=gpu_ms)
        row.efficiency_source = source
        row.save()

    page = shown(viewer)

    assert "Busy, unverified</a> 83 %" in page
    assert "Useful</a> 17 %" in page
    assert 'class="unverified"' in viewer.get("/overview").content.decode()
    assert 'id="unverified"' in viewer.get(reverse("definitions")).content.decode()
