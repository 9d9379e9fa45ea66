"""Whether a node's job sources answer: since when not, and why."""

import pytest

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import SourceReport
from fleetwatch.jobs.selectors import (
    FORGOTTEN_MS,
    JobSource,
    SourceOutage,
    job_sources,
    source_outages,
    source_status_of,
)
from fleetwatch.jobs.services import KEPT_WHYS
from tests.ingest.factories import NOW, NOW_MS, batch, gpu

pytestmark = pytest.mark.django_db

MINUTE = 60_000
T0 = NOW_MS - 120 * MINUTE
DOWN = "scontrol: error: slurm_load_jobs: Unable to contact slurm controller"


def report(minute, *sources, node="n1", minutes=1):
    """A batch of the minutes from T0 + `minute` on."""
    keys = {
        "start_ms": T0 + minute * MINUTE,
        "count": 6 * minutes,
        "sequence": minute,
        "gpus": [gpu(f"GPU-{node}")],
    }
    parsed = batch(node=node, sources=list(sources), **keys)
    store_batch(node_by_name(node), parsed, received_at=NOW)


def says(ok, why=None, kind="slurm"):
    return {"kind": kind, "ok": ok, "why": why}


def now(node="n1"):
    pk = node_by_name(node).pk
    return [(one.kind, one.is_ok, one.why) for one in job_sources([pk]).get(pk, [])]


def test_a_source_that_answers_is_ok():
    report(0, says(True))

    assert job_sources() == {node_by_name("n1").pk: [JobSource("slurm", T0 + MINUTE, None, "")]}


def test_a_source_that_stops_answering_is_silent_since_its_last_answer_and_says_why():
    report(0, says(True))
    report(1, says(False, "timed out"))
    report(2, says(False, DOWN))

    assert job_sources() == {
        node_by_name("n1").pk: [JobSource("slurm", T0 + 3 * MINUTE, T0 + MINUTE, DOWN)]
    }


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_batches_does_not_matter(order):
    told = [(0, says(True)), (1, says(False, DOWN)), (2, says(True))]
    for place in order:
        report(told[place][0], told[place][1])

    assert now() == [("slurm", True, "")]
    assert source_outages(node_by_name("n1").pk, limit=9) == [
        SourceOutage("slurm", T0 + MINUTE, DOWN, T0 + 2 * MINUTE)
    ]


def test_a_source_that_never_answered_is_silent_from_its_first_report():
    report(0, says(False))
    report(1, says(False, DOWN))

    assert job_sources()[node_by_name("n1").pk][0].silent_ms == T0
    assert source_outages(node_by_name("n1").pk, limit=9) == [SourceOutage("slurm", T0, "", None)]


def test_another_reason_is_no_other_outage_and_a_gap_in_telemetry_ends_none():
    report(0, says(False, "first"))
    report(1, says(False, "second"))
    report(4, says(True))
    report(5, says(False, "third"))

    assert source_outages(node_by_name("n1").pk, limit=9) == [
        SourceOutage("slurm", T0 + 5 * MINUTE, "third", None),
        SourceOutage("slurm", T0, "first", T0 + 4 * MINUTE),
    ]
    assert len(source_outages(node_by_name("n1").pk, limit=1)) == 1


def test_the_ledger_knows_of_the_silence_whatever_its_reasons():
    report(0, says(False, "first"))
    report(1, says(False, "second"))

    spans = source_status_of([node_by_name("n1").pk], T0, T0 + 2 * MINUTE)[node_by_name("n1").pk]

    assert sorted((one.ok, span) for one in spans for span in one.spans) == [
        (False, (T0, T0 + MINUTE)),
        (False, (T0 + MINUTE, T0 + 2 * MINUTE)),
    ]


@pytest.mark.parametrize(
    ("later_ms", "kinds"),
    [
        (FORGOTTEN_MS - MINUTE, ["docker", "slurm"]),
        (FORGOTTEN_MS, ["slurm"]),
        (FORGOTTEN_MS + MINUTE, ["slurm"]),
    ],
)
def test_a_source_that_is_reported_no_longer_is_none(later_ms, kinds):
    report(0, says(True), says(False, kind="docker"))

    report(later_ms // MINUTE, says(True))

    assert [kind for kind, _, _ in now()] == kinds


def test_nodes_are_apart():
    report(0, says(True), node="n1")
    report(0, says(False, DOWN), node="n2")

    assert (now("n1"), now("n2")) == ([("slurm", True, "")], [("slurm", False, DOWN)])
    assert job_sources([]) == {}


def test_only_the_newest_reasons_are_kept_and_no_time_is_lost():
    for minute in range(KEPT_WHYS + 3):
        report(minute, says(False, f"job {minute} can't be read"))

    rows = SourceReport.objects.filter(ok=False)
    assert rows.count() == KEPT_WHYS + 1  # and the time of which the reason is forgotten
    assert rows.get(why="").asserted == [(T0, T0 + 3 * MINUTE)]
    assert now() == [("slurm", False, f"job {KEPT_WHYS + 2} can't be read")]


def test_hostile_reasons_are_kept_as_text():
    why = "'); DROP TABLE jobs_job; -- <script>{{7*7}}\u202e %s %(why)s {,}"
    report(0, says(False, why))

    assert now() == [("slurm", False, why)]
