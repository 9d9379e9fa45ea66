"""Hours of GPU models, by hand."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.lib.intervals import to_ms
from fleetwatch.planning.model_hours import (
    HourParts,
    ModelHours,
    by_clock,
    spread,
    summed,
    total,
    with_whole,
)
from fleetwatch.planning.model_lines import model_lines, whole_line

HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")


def ints(*numbers):
    return np.array(numbers, dtype=np.int64) * HOUR


def hours_of(start, *, capacity, held, free, model="H100"):
    starts_ms = to_ms(start) + HOUR * np.arange(len(capacity))
    none = ints(*[0] * len(capacity))
    parts = HourParts(ints(*capacity), ints(*held), ints(*held), none, ints(*free), none, none)
    return ModelHours(model, starts_ms, parts)


def test_of_the_hours_half_and_95_of_100_had_as_many_or_fewer():
    held = ints(*range(1, 21))  # 20 hours: the 10th, the 19th, the 20th

    assert spread(held, ints(*[32] * 20)) == (10, 19, 20)
    assert spread(held, ints(*[32] * 2, *[0] * 18)) == (1, 2, 2)  # hours of which nothing is known
    assert spread(held, ints(*[0] * 20)) is None


def test_the_p95_of_all_is_not_the_sum_of_the_models():
    start = datetime(2026, 10, 1, tzinfo=UTC)
    one = hours_of(start, capacity=[8, 8], held=[8, 0], free=[0, 8])
    other = hours_of(start, capacity=[4, 2], held=[0, 2], free=[4, 0], model="A100")

    lines = model_lines([other, one])
    whole = whole_line([one, other])

    assert [(line.gpu_model, line.gpus, line.held.p95, line.spare) for line in lines] == [
        ("H100", 8, 8, 0),
        ("A100", 2, 2, 0),
    ]
    assert (whole.gpus, whole.held, whole.spare) == (10, (2, 8, 8), 2)
    assert (whole.held_share, whole.capacity_ms) == (10 / 22, 22 * HOUR)
    assert whole_line([]) is None


def test_an_hour_that_the_clock_shows_twice_is_two_hours_of_its_mean():
    # summer time ends on 25 October 2026 at 3:00, which is 2:00 again: 0:00 and 1:00 UTC
    start = datetime(2026, 10, 24, 23, tzinfo=UTC)
    hours = hours_of(start, capacity=[8] * 4, held=[0] * 4, free=[1, 2, 6, 8])

    means = by_clock(hours.parts.free_ms, hours, BERLIN)

    assert means[6, 1:4].tolist() == [1, 4, 8]
    assert np.isnan(means[6, 4])
    assert np.isnan(means[0]).all()


def test_an_hour_that_the_clock_skips_is_none():
    # summer time begins on 29 March 2026 at 2:00, which is 3:00: 1:00 UTC
    start = datetime(2026, 3, 29, tzinfo=UTC)
    hours = hours_of(start, capacity=[8, 8], held=[0, 0], free=[1, 5])

    means = by_clock(hours.parts.free_ms, hours, BERLIN)

    assert (means[6, 1], means[6, 3]) == (1, 5)
    assert np.isnan(means[6, 2])


def test_what_is_free_of_a_node_is_whole_where_all_of_it_is():
    # two nodes of two GPUs, two hours
    free = np.array([[2, 1], [2, 0]]) * HOUR
    none = np.zeros((2, 2), dtype=np.int64)
    parts = HourParts(np.full((2, 2), 2 * HOUR), none, none, none, free, none, none)

    assert (with_whole(parts).whole_ms // HOUR).tolist() == [[2, 0], [2, 0]]


def test_hours_outside_of_those_asked_for_do_not_count():
    starts_ms = ints(10, 11)
    day = HourParts(*[np.array([[1, 2, 3]]) for _ in HourParts._fields])

    [model] = summed([(ints(9, 10, 11), day, np.array([0]))], ["H100", "unused"], starts_ms)

    assert model.parts.capacity_ms.tolist() == [2, 3]
    assert total([]) is None
