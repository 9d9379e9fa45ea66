"""Which window speaks where several cover a millisecond."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwatch.ledger.judgement import gpu_segments
from tests.ledger.factories import T0, Window, columns


def spoken(found, is_seen=None):
    """(start, end, row) of the pieces, times from T0."""
    frame = columns(found)
    is_seen = np.ones(len(found), dtype=bool) if is_seen is None else np.array(is_seen)
    pieces = gpu_segments.resolve(frame, rows=np.arange(len(found)), is_seen=is_seen)
    return list(
        zip(
            (pieces.start_ms - T0).tolist(),
            (pieces.end_ms - T0).tolist(),
            pieces.row.tolist(),
            strict=True,
        )
    )


def window(start=0, **fields):
    return Window(T0 + start, {}, **fields)


def test_windows_side_by_side_each_speak_for_themselves():
    assert spoken([window(10_000), window(0)]) == [(0, 10_000, 1), (10_000, 20_000, 0)]


def test_one_that_says_what_the_gpu_did_wins_over_everything():
    found = [
        window(observed_ms=6_000, boot_start_ms=1),
        window(observed_ms=10_000, boot_start_ms=2),
    ]

    assert spoken(found, is_seen=[True, False]) == [(0, 10_000, 0)]


def test_then_the_higher_observed_fraction():
    found = [window(observed_ms=9_000, boot_start_ms=1), window(observed_ms=8_999, boot_start_ms=2)]

    assert spoken(found) == [(0, 10_000, 0)]


def test_then_the_later_boot_and_then_the_later_sequence():
    assert spoken([window(boot_start_ms=2, sequence=1), window(boot_start_ms=1, sequence=9)]) == [
        (0, 10_000, 0)
    ]
    assert spoken([window(sequence=1), window(sequence=2)]) == [(0, 10_000, 1)]


def test_a_long_window_speaks_around_a_better_one_inside_it():
    found = [window(0, length_ms=60_000, observed_ms=30_000), window(20_000)]

    assert spoken(found) == [(0, 20_000, 0), (20_000, 30_000, 1), (30_000, 60_000, 0)]


def test_the_edges_of_a_window_that_lost_cut_nothing():
    found = [window(0, length_ms=60_000), window(20_000, observed_ms=5_000)]

    assert spoken(found) == [(0, 60_000, 0)]


A_WINDOW = st.builds(
    lambda start, length, observed,
    sequence: window(start, length_ms=length, observed_ms=min(observed, length), sequence=sequence),
    st.integers(0, 400), st.integers(1, 120), st.integers(0, 120), st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(A_WINDOW, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_every_covered_millisecond_is_spoken_for_by_its_best_window_in_any_order(found, random):
    shuffled = found[:]
    random.shuffle(shuffled)
    by_ms = [
        {ms: group[row] for start, end, row in spoken(group) for ms in range(start, end)}
        for group in (found, shuffled)
    ]

    def merit(one):
        return (
            one.observed_ms / one.length_ms,
            one.sequence,
            one.start_ms,
            one.start_ms + one.length_ms,
        )

    covered = {
        ms for one in found for ms in range(one.start_ms - T0, one.start_ms - T0 + one.length_ms)
    }
    assert by_ms[0].keys() == covered
    assert by_ms[0] == by_ms[1]
    for ms, speaker in by_ms[0].items():
        assert merit(speaker) == max(
            merit(one)
            for one in found
            if one.start_ms - T0 <= ms < one.start_ms - T0 + one.length_ms
        )
