"""Parts of runs as bytes: what COPY stores is what rows say, and what is compared is what is
stored.
"""

from dataclasses import replace

import numpy as np
import pytest

from fleetwatch.ledger import run_rows
from fleetwatch.ledger.judgement.cell_states import joined
from fleetwatch.ledger.judgement.observations import NO_ENTRIES, NOBODY, Judgement, RunParts
from fleetwatch.ledger.models import HourRuns, Run
from fleetwatch.ledger.policy import CONDITIONS, FIGURES, STATES
from fleetwatch.lib.intervals import HOUR_MS

HOUR = 494_444 * HOUR_MS
SPAN = (HOUR, HOUR + 2 * HOUR_MS)
NODE = 5


def judgement() -> Judgement:
    """GPU 7 free for two seconds, then job 9's: active, and spinning in the next hour."""
    state_ms = np.zeros((3, len(STATES)), dtype=np.int64)
    state_ms[[0, 1, 2], [STATES.index("free"), STATES.index("useful"), STATES.index("stalled")]] = [
        2_000,
        1_500,
        1_000,
    ]
    state_ms[1, STATES.index("unobserved")] = 500
    figures = np.zeros((3, len(FIGURES)))
    figures[:, FIGURES.index("power_w_sum")] = [0.1, 6.7e16, 0.0]
    parts = RunParts(
        gpu_id=np.array([7, 7, 7]),
        job_id=np.array([NOBODY, 9, 9]),
        cut_ms=np.array([HOUR, HOUR, HOUR + HOUR_MS]),
        condition=np.array([CONDITIONS.index(name) for name in ("free", "active", "spinning")]),
        start_ms=np.array([HOUR, HOUR + 2_000, HOUR + HOUR_MS]),
        end_ms=np.array([HOUR + 2_000, HOUR + 4_000, HOUR + HOUR_MS + 1_000]),
        continues=np.array([False, True, False]),
        state_ms=state_ms,
        figures=figures,
    )
    return Judgement(NO_ENTRIES, parts, joined([]))


def of(judged: Judgement) -> run_rows.Rows:
    return run_rows.judged_rows(judged, within=SPAN)


def differing(judged: run_rows.Rows) -> run_rows.Rows:
    """The judged rows of the hours that are not stored so."""
    stored = run_rows.stored_rows([NODE], *SPAN)[NODE]
    return run_rows.differing(stored, judged, run_rows.compared)


@pytest.mark.django_db
def test_rows_are_stored_as_they_were_judged():
    run_rows.copy({NODE: of(judgement())})

    columns = (
        "node_id",
        "gpu_id",
        "job_id",
        "condition",
        "start_ms",
        "end_ms",
        "continues",
        "state_ms",
        "figures",
    )
    assert list(Run.objects.order_by("start_ms").values_list(*columns)) == [
        (5, 7, None, "free", HOUR, HOUR + 2_000, False, {"free": 2_000}, {"power_w_sum": 0.1}),
        (
            5,
            7,
            9,
            "active",
            HOUR + 2_000,
            HOUR + 4_000,
            True,
            {"useful": 1_500, "unobserved": 500},
            {"power_w_sum": 6.7e16},
        ),
        (
            5,
            7,
            9,
            "spinning",
            HOUR + HOUR_MS,
            HOUR + HOUR_MS + 1_000,
            False,
            {"stalled": 1_000},
            {},
        ),
    ]


@pytest.mark.django_db
def test_what_was_stored_differs_in_nothing_whatever_order_it_was_stored_in():
    judged = of(judgement())
    run_rows.copy({NODE: {hour: rows[::-1] for hour, rows in reversed(judged.items())}})

    assert differing(judged) == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "column", ["gpu_id", "job_id", "condition", "end_ms", "continues", "state_ms", "figures"]
)
def test_an_hour_in_which_one_number_differs_is_written_anew(column):
    run_rows.copy({NODE: of(judgement())})
    judged = judgement()
    changed = getattr(judged.parts, column).copy()
    changed[-1] = ~changed[-1] if column == "continues" else changed[-1] - 1

    judged = replace(judged, parts=replace(judged.parts, **{column: changed}))

    assert list(differing(of(judged))) == [HOUR + HOUR_MS]


@pytest.mark.django_db
def test_an_hour_that_nobody_judges_any_more_is_emptied():
    run_rows.copy({NODE: of(judgement())})

    assert {hour: len(rows) for hour, rows in differing({}).items()} == {
        HOUR: 0,
        HOUR + HOUR_MS: 0,
    }


@pytest.mark.django_db
def test_a_stored_word_that_nobody_knows_differs():
    judged = of(judgement())
    run_rows.copy({NODE: judged})
    HourRuns.objects.filter(job=None).update(conditions=[99])

    assert list(differing(judged)) == [HOUR]


def test_rows_of_several_nodes_are_those_of_each():
    one = judgement()
    other = replace(one, parts=replace(one.parts, gpu_id=one.parts.gpu_id - 1))

    several = run_rows.rows_of_nodes({NODE: one, NODE + 1: other}, within=SPAN)

    assert several == {NODE: of(one), NODE + 1: of(other)}
