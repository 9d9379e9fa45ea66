"""What a fix brought, worked out by hand: runs of hours, before and after."""

import random
from collections import Counter

import pytest

from fleetwatch.diagnosis.findings.realised import Outcome, Run, changed_at, effect

HOUR = 3_600_000
CAUSE = "data_starved"
DAY = 24 * HOUR


def runs(*told: tuple[float, float, float], first_day: int = 0) -> list[Run]:
    """A run each day of (hours held, of these wasted, of these under the cause)."""
    return [
        Run(
            (first_day + day) * DAY,
            (first_day + day) * DAY + 10 * HOUR,
            round(wasted * HOUR),
            Counter({CAUSE: round(cause * HOUR), "other": round((held - cause) * HOUR)}),
        )
        for day, (held, wasted, cause) in enumerate(told)
    ]


STARVED, SHORTER, FULLER = (10, 5, 10), (6, 1, 0), (10, 1, 0)
FIX = 3 * DAY


def test_runs_that_became_shorter_by_what_they_wasted_saved_those_hours():
    found = effect(runs(STARVED, STARVED, STARVED, SHORTER, SHORTER, SHORTER, SHORTER), CAUSE, FIX)

    assert (found.outcome, found.runs_before, found.runs_after) == (Outcome.IMPROVED, 3, 4)
    assert (found.useful_before, found.useful_after) == (0.5, pytest.approx(5 / 6))
    assert (found.effect_low, found.effect_high) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (found.saved_low_ms, found.saved_high_ms) == (4 * 4 * HOUR, 4 * 4 * HOUR)


def test_fuller_runs_of_the_same_length_improved_utilisation_and_saved_nothing():
    found = effect(runs(STARVED, STARVED, STARVED, FULLER, FULLER, FULLER), CAUSE, FIX)

    assert found.outcome == Outcome.IMPROVED
    assert found.effect_low == pytest.approx(0.4)
    assert (found.saved_low_ms, found.saved_high_ms) == (0, 0)


def test_shorter_runs_that_waste_as_much_saved_nothing():
    found = effect(runs(STARVED, STARVED, STARVED, (6, 5, 6), (6, 5, 6), (6, 5, 6)), CAUSE, FIX)

    assert found.outcome == Outcome.UNPROVEN
    assert found.saved_high_ms == 0


def test_no_more_is_saved_than_was_wasted():
    found = effect(runs(STARVED, STARVED, STARVED, (1, 0, 0), (1, 0, 0), (1, 0, 0)), CAUSE, FIX)

    # each is nine hours shorter, five of which were wasted
    assert found.saved_high_ms == 3 * 5 * HOUR


@pytest.mark.parametrize(
    ("before", "after", "outcome"), [(2, 3, "waiting"), (3, 2, "waiting"), (3, 3, "improved")]
)
def test_three_runs_on_each_side_are_enough(before, after, outcome):
    told = runs(*[STARVED] * before, first_day=3 - before) + runs(*[SHORTER] * after, first_day=3)

    assert effect(told, CAUSE, FIX).outcome == outcome


def test_a_run_that_goes_on_during_the_fix_is_on_neither_side():
    found = effect(
        runs(STARVED, STARVED, STARVED, STARVED, SHORTER, SHORTER, SHORTER), CAUSE, 3 * DAY + HOUR
    )

    assert (found.runs_before, found.runs_after) == (3, 3)


def test_a_run_of_which_nothing_was_seen_is_no_run():
    assert (
        effect(runs(STARVED, STARVED, (0, 0, 0), SHORTER, SHORTER, SHORTER), CAUSE, FIX).outcome
        == Outcome.WAITING
    )


def test_runs_that_differ_widely_prove_nothing():
    found = effect(
        runs((10, 1, 1), (10, 9, 9), (10, 5, 5), (10, 2, 2), (10, 8, 8), (10, 4, 4)), CAUSE, FIX
    )

    assert found.effect_low < 0 < found.effect_high
    assert found.outcome == Outcome.UNPROVEN


def test_few_runs_make_the_interval_as_wide_as_students():
    # useful shares 0.4, 0.5, 0.6, then 0.8, 0.9, 1.0: each mean has a standard error of 0.1 /
    # sqrt(3), their difference 0.0816; four degrees of freedom: 2.776 of it, 0.227, around 0.4
    found = effect(
        runs((10, 6, 6), (10, 5, 5), (10, 4, 4), (10, 2, 0), (10, 1, 0), (10, 0, 0)), CAUSE, FIX
    )

    # no share is above 1
    assert (found.effect_low, found.effect_high) == (pytest.approx(0.4 - 0.227, abs=0.02), 0.5)


def test_runs_without_a_change_are_seldom_called_improved():
    draw = random.Random(7).gauss
    told = [runs(*((10, min(max(draw(4, 1), 0), 10), 0) for _ in range(6))) for _ in range(200)]

    found = [effect(several, CAUSE, FIX) for several in told]

    assert sum(one.outcome == Outcome.IMPROVED for one in found) <= 10  # 2.5 % are expected
    assert sum(one.effect_low <= 0 <= one.effect_high for one in found) >= 180


def test_the_same_runs_in_any_order_give_the_same_interval():
    told = runs((10, 4, 4), (12, 6, 6), (9, 5, 5), (10, 1, 0), (8, 2, 0), (7, 1, 0))

    assert effect(told, CAUSE, FIX) == effect(told[::-1], CAUSE, FIX)


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.49, "improved"), (0.50, "regressed"), (0.51, "regressed")]
)
def test_a_cause_is_back_when_three_runs_show_half_of_what_it_was(share, outcome):
    back = (10, 1, 10 * share)

    assert (
        effect(
            runs(STARVED, STARVED, STARVED, SHORTER, SHORTER, back, back, back), CAUSE, FIX
        ).outcome
        == outcome
    )


def test_a_cause_that_never_went_away_is_no_regression():
    assert effect(runs(*[STARVED] * 7), CAUSE, FIX).outcome == Outcome.UNPROVEN


def test_a_change_is_noticed_at_the_first_run_without_the_cause():
    assert (
        changed_at(runs(STARVED, STARVED, STARVED, STARVED, SHORTER, SHORTER, SHORTER), CAUSE)
        == 4 * DAY
    )


@pytest.mark.parametrize(
    "told",
    [
        [STARVED] * 3 + [SHORTER] * 2,  # two runs may be chance
        [STARVED] * 2 + [SHORTER] * 3,
        [STARVED] * 3 + [SHORTER] * 3 + [STARVED],  # it is there again
        [(10, 1, 1.9)] * 3 + [SHORTER] * 3,  # it never took a fifth of the time
        [SHORTER] * 7,
    ],
)
def test_nothing_is_noticed(told):
    assert changed_at(runs(*told), CAUSE) is None
