"""Numbers by name in Python, by place in the database."""

import pytest
from django.db import connection

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.lib.rows import fetched
from tests import stored_runs

pytestmark = pytest.mark.django_db
HOUR = 494_444 * HOUR_MS


def a_run(**numbers):
    gpu = GPU.objects.create(node=Node.objects.create(name="n1"), uuid="GPU-1")
    span = {"start_ms": HOUR, "end_ms": HOUR + 2_000}
    stored_runs.store(Run(node=gpu.node, gpu=gpu, condition="active", **span, **numbers))


def test_numbers_stand_in_their_places_and_those_that_are_0_are_left_out():
    spent = {"useful": 1_500, "unobserved": 500}
    figures = {"power_w_ms": 1_500.0, "power_w_sum": 6.7e16, "memory_used_bytes_sum": 0.1}

    a_run(state_ms=spent, figures=figures)

    with connection.cursor() as cursor:
        cursor.execute("SELECT state_ms, figures FROM ledger_run")
        assert cursor.fetchone() == (
            [1_500, 0, 0, 0, 0, 0, 0, 0, 500],
            [0.0, 0.0, 1_500.0, 6.7e16, 0.0, 0.1, 0.0, 0.0],
        )
    run = Run.objects.get()
    assert (run.state_ms, run.figures) == (spent, figures)


def test_the_view_of_runs_names_every_state_and_means_what_was_read():
    spent = {state: 1 + place for place, state in enumerate(STATES)}
    a_run(state_ms=spent, figures={"active_ms": 4.0, "active_sum": 1.0, "power_w_sum": 0.0})

    columns = ", ".join(f"{state}_ms" for state in STATES)
    [row] = fetched(f"SELECT {columns}, active_ratio, power_w, start, until FROM gpu_runs", [])

    assert dict(zip(STATES, row, strict=False)) == spent
    assert row[len(STATES) :] == (0.25, None, from_ms(HOUR), from_ms(HOUR + 2_000))
