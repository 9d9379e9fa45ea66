"""Five-minute cells: what they say of windows, worked out by hand."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement import cell_figures, pauses
from fleetwatch.diagnosis.judgement.window_places import Grid

START = 1_790_000_100_000 // cell_figures.CELL_MS * cell_figures.CELL_MS


@dataclass
class Windows:
    gpu_id: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    observed_ms: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Host:
    start_ms: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)


NO_HOST = Host(np.zeros(0, dtype=np.int64))


def windows(*, gpus: int = 1, first_ms: int = START, **columns: list[float]) -> Windows:
    """10-second windows of GPUs 1, 2, …: each column's values by GPU, then by time."""
    count = len(next(iter(columns.values()))) // gpus
    start = np.tile(first_ms + 10_000 * np.arange(count), gpus)
    return Windows(
        np.repeat(np.arange(1, gpus + 1), count),
        start,
        start + 10_000,
        np.full(len(start), 10_000),
        {name: np.array(values, dtype=float) for name, values in columns.items()},
    )


def made(
    found: Windows,
    *,
    gpus: int = 1,
    start_ms: int = START,
    count: int = 1,
    jobs=None,
    memory=None,
    host=NO_HOST,
    before=pauses.NOTHING,
) -> dict[str, np.ndarray]:
    """Figures of GPUs 1, 2, …; `jobs`: who holds each, default nobody."""
    ids = np.arange(1, gpus + 1)
    holders = np.repeat(np.array(jobs or [0] * gpus).reshape(-1, 1), count, axis=1)
    grid = Grid(
        gpu_ids=ids,
        host_of=np.zeros(gpus, dtype=np.int64),
        memory_bytes=np.array([(memory or {}).get(gpu, np.nan) for gpu in ids.tolist()]),
        holders=holders,
        start_ms=start_ms,
    )
    return cell_figures.cells(found, [host], grid, before)


def test_a_mean_is_over_the_windows_in_which_the_column_was_read_by_their_observed_time():
    found = windows(util_mean=[1.0, 0.5, np.nan])
    found.observed_ms = np.array([10_000, 5_000, 10_000])

    figures = made(found)

    assert figures["util_mean"][0, 0] == pytest.approx((1.0 * 10 + 0.5 * 5) / 15)
    assert figures[cell_figures.SEEN_MS][0, 0] == 25_000


def test_what_nobody_read_is_nan_and_a_cell_without_windows_has_seen_nothing():
    figures = made(windows(util_mean=[0.4]), count=2)

    assert np.isnan(figures["sm_active"]).all()
    assert figures[cell_figures.SEEN_MS].tolist() == [[10_000, 0]]
    assert np.isnan(figures["util_mean"][0, 1])


def test_new_memory_errors_are_what_the_counter_rose_by_and_a_driver_that_began_anew_has_none():
    counted = [3, 3, 4, np.nan, 6, 7, 0, 1]  # beside the gap nothing is known

    assert made(windows(ecc_uncorrected=counted))[cell_figures.MEMORY_ERRORS].tolist() == [[3.0]]
    assert made(windows(gpus=2, ecc_uncorrected=[3, 3, 8, 8]), gpus=2)[
        cell_figures.MEMORY_ERRORS
    ].tolist() == [[0.0], [0.0]]
    # of the first window nobody knows
    assert np.isnan(made(windows(ecc_uncorrected=[3]))[cell_figures.MEMORY_ERRORS]).all()


def test_the_busiest_minute_is_the_largest_mean_of_the_windows_that_start_in_it():
    found = windows(util_mean=[0.2] * 6 + [0.0, 0.9, 0.9, 0.0, 0.0, 0.0] + [0.1, np.nan])

    # 1.8 of six, not the 0.9 of one window
    assert made(found, count=2)[cell_figures.BUSIEST_MINUTE][0, 0] == pytest.approx(0.3)
    assert np.isnan(made(found, count=2)[cell_figures.BUSIEST_MINUTE][0, 1])


def test_of_the_engines_beside_the_units_the_busiest_of_each_window_counts():
    figures = made(
        windows(encoder_ratio=[0.9, 0.1], decoder_ratio=[0.2, np.nan], ofa_ratio=[np.nan, 0.5])
    )

    assert figures[cell_figures.ENGINES][0, 0] == pytest.approx(0.7)


def test_a_window_belongs_to_the_cell_in_which_it_starts():
    found = windows(first_ms=START + cell_figures.CELL_MS - 10_000, util_mean=[0.2, 0.8])

    assert made(found, count=2)["util_mean"].tolist() == [[0.2, 0.8]]


def test_extremes_pass_over_what_was_not_read():
    figures = made(windows(util_max=[np.nan, 0.7, 0.9]))

    assert figures["util_max_max"][0, 0] == 0.9


def test_a_clock_says_something_only_while_the_gpu_works():
    figures = made(
        windows(util_mean=[0.9, 0.5], sm_clock_hz=[1.0e9, 0.2e9], sm_clock_max_hz=[2.0e9, 2.0e9])
    )

    assert figures[cell_figures.CLOCK_RATIO][0, 0] == 0.5


@pytest.mark.parametrize(("fall", "drops"), [(19, 0), (20, 1), (21, 1)])
def test_a_fall_of_memory_counts_from_a_fifth_of_the_gpus_on(fall, drops):
    found = windows(memory_used_bytes=[80.0, 80.0 - fall])

    assert made(found, memory={1: 100.0})[cell_figures.MEMORY_DROPS][0, 0] == drops


def test_gpus_of_one_job_are_compared_with_the_others_at_the_same_moment():
    found = windows(gpus=3, util_mean=[1.0, 0.0, 0.8, 0.2, 0.6, 0.4])

    figures = made(found, gpus=3, jobs=[7, 7, 7])

    assert figures["peer_n"][:, 0].tolist() == [2, 2, 2]
    assert figures["peer_m"][0, 0] == pytest.approx((0.8 + 0.6) / 2 + (0.2 + 0.4) / 2)


def test_a_gpu_alone_has_no_peers():
    assert np.isnan(made(windows(util_mean=[0.5]), jobs=[7])["peer_n"]).all()


def test_the_hosts_figures_are_the_same_for_all_its_gpus():
    host = Host(np.array([START, START + 10_000]), {"io_psi_ratio": np.array([0.2, 0.4])})

    figures = made(windows(gpus=2, util_mean=[1.0, 1.0]), gpus=2, host=host)

    assert figures["host_io_psi_ratio"][:, 0].tolist() == pytest.approx([0.3, 0.3])


def lowly(*longest: float, dips: list[float] | None = None, first_ms: int = START) -> Windows:
    """10-second windows with a longest pause of so many seconds each."""
    return windows(
        first_ms=first_ms,
        util_longest_low_s=list(longest),
        util_mean=[1 - low / 10 for low in longest],
        util_dips=dips or [1.0 if low else 0.0 for low in longest],
    )


@pytest.mark.parametrize(("low_s", "onsets", "total"), [(4.9, 0, 0.0), (5.0, 1, 5.0)])
def test_a_pause_is_long_from_five_seconds_on(low_s, onsets, total):
    figures = made(lowly(0, low_s, 0))

    assert figures[pauses.ONSETS][0, 0] == onsets
    assert figures[pauses.LOW_S][0, 0] == total


def test_a_pause_over_several_windows_is_one():
    figures = made(lowly(0, 6, 10, 10, 7, 0))

    assert figures[pauses.ONSETS][0, 0] == 1
    assert figures[pauses.LONGEST][0, 0] == 33
    assert figures[pauses.FIRST_ONSET][0, 0] == 10


def test_a_long_pause_is_where_its_windows_are_paused_and_alone_in_one_in_its_middle():
    """Its first window is paused at its end, its last at its beginning."""
    spans = pauses.long_pauses(lowly(0, 6, 10, 7, 0, 0, 6, 0))

    assert [(each.start_ms - START, each.end_ms - START) for each in spans] == [
        (14_000, 37_000),
        (62_000, 68_000),
    ]
    assert [each.window_ms - START for each in spans] == [10_000, 60_000]


def test_two_pauses_in_windows_that_both_dip_are_two():
    assert made(lowly(6, 6, dips=[1, 1]))[pauses.ONSETS][0, 0] == 2


@pytest.mark.parametrize(
    ("low_s", "longest"),
    [
        ((6, 7), 13),
        ((6, 7, 8), 13),  # the second ended the first's pause
        ((6, 7, 8, 6), 14),
        ((6, 10, 8, 7), 24),  # nor does what comes after the end of one go on from it
        ((10, 8, 10), 18),
        ((8, 10, 10, 8), 36),
    ],
)
def test_a_window_that_is_paused_in_part_ends_a_pause_or_begins_one(low_s, longest):
    """None dips: what lies between them never rose to where a fall is counted."""
    figures = made(lowly(*low_s, dips=[0.0] * len(low_s)))

    assert figures[pauses.LONGEST][0, 0] == longest


def test_times_between_pauses_within_a_cell_are_summed():
    figures = made(lowly(0, 6, 0, 0, 6, 0, 6))

    assert figures[pauses.INTERVALS][0, 0] == 30 + 20
    assert figures[pauses.INTERVALS_SQUARED][0, 0] == 30**2 + 20**2
    assert figures[pauses.LAST_ONSET][0, 0] == 60


def test_a_pause_that_began_before_the_first_cell_begins_nowhere():
    figures = made(lowly(10, 10, 8, 0, first_ms=START - 10_000))

    assert figures[pauses.ONSETS][0, 0] == 0
    assert figures[pauses.LOW_S][0, 0] == 18
    assert figures[pauses.LONGEST][0, 0] == 28


def test_without_the_drivers_samples_a_window_is_a_pause_or_it_is_not():
    figures = made(windows(util_mean=[0.5, 0.09, 0.05, 0.10]))

    assert figures[pauses.LOW_S][0, 0] == 20
    assert figures[cell_figures.WINDOW_LOW][0, 0] == 0.5


def test_a_gpu_that_spins_pauses_however_busy_it_seems():
    figures = made(
        windows(
            util_mean=[1.0, 1.0, 1.0],
            util_longest_low_s=[0.0, 0.0, 0.0],
            spin_fraction=[0.0, 0.8, 0.0],
        )
    )

    assert figures[pauses.LOW_S][0, 0] == 8
    assert figures[pauses.ONSETS][0, 0] == 1


def test_gpus_of_different_jobs_are_no_peers():
    found = windows(gpus=3, util_mean=[1.0, 0.8, 0.6])

    figures = made(found, gpus=3, jobs=[7, 7, 8])

    assert figures["peer_m"][:2, 0].tolist() == pytest.approx([0.8, 1.0])
    assert np.isnan(figures["peer_n"][2, 0])


def test_a_pause_goes_on_from_the_last_window_before_whose_length_is_known():
    """A window before the cell and one in it, both all pause."""
    found = windows(first_ms=START - 10_000, util_mean=[0.0, 0.0])
    known = pauses.Before(
        np.array([1]), np.array([START - 10_000]), np.array([600.0]), np.array([300.0])
    )
    another = replace(known, start_ms=known.start_ms - 10_000)

    assert made(found, before=known)[pauses.LONGEST].tolist() == [[610.0]]
    assert made(found, before=another)[pauses.LONGEST].tolist() == [[20.0]]
    assert made(found, before=known)[pauses.SO_FAR].tolist() == [[610.0]]
    assert made(found, before=known)[pauses.QUIET_LONGEST].tolist() == [[310.0]]
    assert made(found, before=another)[pauses.QUIET_LONGEST].tolist() == [[20.0]]
    assert made(found)[pauses.LAST_START].tolist() == [[0.0]]


def test_a_window_in_which_nothing_was_observed_is_the_last_one_too():
    found = windows(util_mean=[0.0, np.nan])
    found.observed_ms = np.array([10_000, 0])

    figures = made(found)

    assert (figures[pauses.LAST_START].tolist(), figures[pauses.SO_FAR].tolist()) == (
        [[10.0]],
        [[0.0]],
    )


def test_a_quiet_run_ends_with_a_moment_of_work_that_a_pause_goes_on_over():
    """Ten seconds each, of which it works 0.2 in the third and 0.6 in the fifth."""
    says = [0.0, 0.0, 0.02, 0.0, 0.06, 0.0, 0.0]
    low_s = [10.0, 10.0, 9.8, 10.0, 9.4, 10.0, 10.0]

    figures = made(windows(util_mean=says, util_longest_low_s=low_s, util_dips=[0.0] * 7))

    assert figures[pauses.QUIET_LONGEST].tolist() == [[40.0]]
    assert figures[pauses.QUIET_SO_FAR].tolist() == [[20.0]]
    assert figures[pauses.LONGEST][0, 0] == pytest.approx(69.2)


@pytest.mark.parametrize(
    "says",
    [
        {"util_mean": [0.0, np.nan, 0.0]},
        {"util_mean": [0.0, 0.0, 0.0], "decoder_ratio": [0.0, 0.5, 0.0]},
    ],
)
def test_a_window_that_was_not_read_or_whose_decoder_works_ends_a_quiet_run(says):
    assert made(windows(**says))[pauses.QUIET_LONGEST].tolist() == [[10.0]]


def test_where_no_utilisation_was_read_nothing_is_known_of_quiet_runs():
    assert np.isnan(made(windows(util_mean=[np.nan]))[pauses.QUIET_LONGEST]).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_cell_made_from_the_last_window_on_is_that_made_from_all_windows_before(seed):
    """Of two GPUs, a quarter of an hour before the cell and the cell; some windows are not
    there.
    """
    draw = np.random.default_rng(seed)
    count = 120
    stretch = np.repeat(draw.choice([0.0, 0.0, 0.05, 0.6, np.nan], 2 * count // 8), 8)
    low_s = np.where(stretch < 0.1, draw.choice([10.0, 9.5, 6.2], 2 * count), 0.3)
    columns = {
        "util_mean": stretch,
        "util_longest_low_s": np.where(draw.random(2 * count) < 0.1, np.nan, low_s),
        "util_dips": draw.integers(0, 3, 2 * count).astype(float),
        "spin_fraction": np.where(draw.random(2 * count) < 0.9, 0.0, 1.0),
        "memory_used_bytes": draw.choice([10.0, 60.0], 2 * count),
        "ecc_uncorrected": np.cumsum(draw.random(2 * count) < 0.1).astype(float),
    }
    every = taken(
        windows(gpus=2, first_ms=START - 90 * 10_000, **columns), draw.random(2 * count) < 0.95
    )
    told = {"gpus": 2, "memory": {1: 80.0, 2: 80.0}}
    earlier = made(
        taken(every, every.start_ms < START),
        start_ms=START - 3 * cell_figures.CELL_MS,
        count=3,
        **told,
    )
    last_ms = (
        START
        - cell_figures.CELL_MS
        + np.rint(earlier[pauses.LAST_START][:, -1] * 1000).astype(np.int64)
    )

    so_far, quiet = (earlier[name][:, -1] for name in (pauses.SO_FAR, pauses.QUIET_SO_FAR))
    before = pauses.Before(np.array([1, 2]), last_ms, so_far, quiet)
    short = made(taken(every, every.start_ms >= last_ms[every.gpu_id - 1]), before=before, **told)

    whole = made(every, **told)
    for name, values in whole.items():
        assert np.allclose(short[name], values, rtol=1e-12, equal_nan=True), name


def taken(found: Windows, where: np.ndarray) -> Windows:
    columns = {name: values[where] for name, values in found.columns.items()}
    return Windows(
        found.gpu_id[where],
        found.start_ms[where],
        found.end_ms[where],
        found.observed_ms[where],
        columns,
    )
