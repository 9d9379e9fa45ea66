"""The series answer: points, gaps that stay null, and refusals."""

import pytest

from tests.telemetry.factories import HOUR_START_MS, make_node, store


@pytest.mark.django_db
def test_the_series_of_a_gpu_has_its_windows_and_its_gaps(api):
    node = make_node("gpu-07")
    starts = [HOUR_START_MS, HOUR_START_MS + 10_000, HOUR_START_MS + 40_000]
    store(
        node, starts=starts, columns={"util_mean": [0.2, 0.4, 1.0], "power_w": [100.0, None, 300.0]}
    )

    query = "from=2026-11-20T10:00:00Z&to=2026-11-20T10:01:00Z&metrics=util_mean,power_w,sm_active&step_s=20"
    answer = api.get(f"/api/v1/gpus/GPU-gpu-07-0/series?{query}").json()

    assert answer["start_ms"] == [HOUR_START_MS, HOUR_START_MS + 20_000, HOUR_START_MS + 40_000]
    assert answer["step_s"] == 20
    assert answer["values"] == {
        "util_mean": [pytest.approx(0.3), None, 1.0],
        "power_w": [100.0, None, 300.0],
        "sm_active": [None, None, None],
    }


@pytest.mark.django_db
def test_a_window_that_was_sent_again_by_another_boot_counts_once(api):
    node = make_node("gpu-07")
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.2]})
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.8]}, boot_id="boot-b", sequence=2)

    answer = api.get(
        "/api/v1/gpus/GPU-gpu-07-0/series?from=2026-11-20T10:00Z&to=2026-11-20T10:01Z&metrics=util_mean&step_s=60"
    ).json()

    assert answer["values"] == {"util_mean": [pytest.approx(0.8)]}
