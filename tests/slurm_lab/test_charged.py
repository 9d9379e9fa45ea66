"""Charged is what was allocated: GPU-seconds of a job on the hub = sacct's elapsed time x GPUs,
within one window.
"""

import sys

import pytest

from tests.slurm_lab.books import Row, printed, table
from tests.slurm_lab.day import HOSTILE, WINDOW_S
from tests.slurm_lab.site import Site


@pytest.fixture(scope="module")
def rows(site: Site, jobs: dict[str, int]) -> dict[int, Row]:
    found = table(site)
    sys.stderr.write("\n" + printed(found) + "\n")
    return found


def test_every_job_is_charged_what_slurm_gave_it_within_one_window(rows: dict[int, Row]) -> None:
    wrong = [row for row in rows.values() if abs(row.charged - row.real) > WINDOW_S * row.gpus]

    assert len(rows) == 8 + 7
    assert wrong == []


def test_no_ended_job_stays_running(rows: dict[int, Row]) -> None:
    assert {row.hub_state for row in rows.values()} == {"COMPLETED", "CANCELLED"}


def test_after_a_known_end_nothing_is_waste_for_certain(site: Site, jobs: dict[str, int]) -> None:
    states = site.get("/api/v1/fleet/summary")["states"]

    assert states["orphaned"] == 0
    assert states["underused"] > 0


def test_a_heterogeneous_job_keeps_its_name_and_costs_no_other_job_its_own(
    site: Site, jobs: dict[str, int]
) -> None:
    known = {kind: site.job(number) or {} for kind, number in jobs.items()}

    assert known["hetero"]["name"] == HOSTILE
    assert [
        (known[kind]["name"], known[kind]["user"], known[kind]["account"])
        for kind in ("two", "cancelled")
    ] == [
        ("two", "ann", "chem"),
        ("cancelled", "bob", "physics"),
    ]
