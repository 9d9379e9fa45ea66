import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.idle_watts import idle_power_w
from agent.window import close_window
from tests.agent.factories import START, gpu, reading


def close(readings, *, interval_s=1.0, end_s=10, facts=None):
    return close_window(
        readings,
        gpu=facts or gpu(),
        start_ms=START,
        end_ms=START + end_s * 1000,
        interval_ms=interval_s * 1000,
    )


def each_second(values, **others):
    return [reading(second, util=value, **others) for second, value in enumerate(values)]


def test_ten_readings_are_one_whole_window():
    window = close([*each_second([1.0] * 5 + [0.0] * 5), reading(10, util=0.0)])

    assert window.observed_ms == 10_000
    assert window.columns["util_mean"] == 0.5
    assert (window.columns["util_min"], window.columns["util_max"]) == (0.0, 1.0)
    assert window.columns["util_zero_fraction"] == 0.5
    assert window.columns["util_low_fraction"] == 0.5
    assert window.columns["util_high_fraction"] == 0.5
    assert window.columns["util_longest_low_s"] == 5.0
    assert window.columns["util_dips"] == 1
    assert (window.columns["util_p5"], window.columns["util_p50"], window.columns["util_p90"]) == (
        0.0,
        0.0,
        1.0,
    )


def test_a_window_that_nobody_read_has_no_columns():
    window = close([])

    assert (window.observed_ms, window.columns) == (0, {})


def test_a_reading_counts_until_the_next_one():
    window = close([reading(0, util=1.0), reading(1.4, util=0.0)])

    assert window.observed_ms == 2_900  # 1.4 s until the next, then 1.5 intervals
    assert window.columns["util_mean"] == pytest.approx(1.4 / 2.9, abs=1e-5)


def test_nothing_bridges_a_gap():
    window = close([reading(0, util=1.0), reading(6, util=1.0)])

    assert window.observed_ms == 3_000
    assert window.columns["util_zero_fraction"] == 0.0


def test_a_reading_from_before_the_window_counts_into_it():
    window = close([reading(-0.6, util=1.0), reading(0.4, util=0.0)])

    assert window.observed_ms == 1_900
    assert window.columns["util_mean"] == pytest.approx(0.4 / 1.9, abs=1e-5)


def test_what_was_not_read_is_absent_and_never_zero():
    window = close(each_second([None] * 10, power_w=71.5))

    assert window.observed_ms == 10_000
    assert [name for name in window.columns if name.startswith("util")] == []
    assert window.columns["power_w"] == pytest.approx(71.5)


def test_unread_readings_do_not_dilute_the_mean():
    window = close(each_second([0.8, None, 0.8, None, 0.8, None, 0.8, None, 0.8, None]))

    assert window.columns["util_mean"] == pytest.approx(0.8)


def test_the_drivers_samples_show_what_one_reading_a_second_hides():
    samples = [
        (place * 250_000, value) for place, value in enumerate([1.0, 0.0, 1.0, 0.0], start=1)
    ]
    readings = [reading(second, util=1.0, util_samples=samples) for second in range(11)]

    window = close(readings)

    assert window.columns["util_mean"] == pytest.approx(0.5)
    assert window.columns["util_zero_fraction"] == pytest.approx(0.5)
    assert window.columns["util_dips"] == 20
    assert window.columns["util_cycle_s"] == pytest.approx(0.5)
    assert window.columns["util_cycle_cv"] == pytest.approx(0.0)


def test_samples_older_than_the_reading_before_are_not_counted_again():
    buffer = [(place * 1_000_000, 1.0) for place in range(1, 10)] + [(10_000_000, 0.0)]

    window = close([reading(0, util=0.0), reading(1, util=0.0, util_samples=buffer)], end_s=1)

    assert window.columns["util_mean"] == 0.0


def test_samples_after_the_window_belong_to_the_next():
    samples = [(500_000, 1.0), (1_000_000, 0.0)]

    window = close([reading(9.5, util=1.0), reading(10.5, util=0.0, util_samples=samples)])

    assert window.observed_ms == 500
    assert window.columns["util_mean"] == 1.0


@pytest.mark.parametrize(("lowest", "dips"), [(0.30, 1), (0.31, 0)])
def test_a_dip_falls_from_seventy_to_thirty(lowest, dips):
    window = close(each_second([0.7, 0.5, lowest, 0.5, lowest, 0.7]))

    assert window.columns["util_dips"] == dips


def test_a_dip_on_the_edge_of_a_window_is_counted_once():
    first = close([*each_second([1.0] * 10), reading(10, util=0.0)])
    second = close_window(
        [reading(9, util=1.0), reading(10, util=0.0)],
        gpu=gpu(),
        start_ms=START + 10_000,
        end_ms=START + 20_000,
        interval_ms=1000,
    )

    assert (first.columns["util_dips"], second.columns["util_dips"]) == (0, 1)


@pytest.mark.parametrize(
    ("util", "low", "high"),
    [(0.0999, 1.0, 0.0), (0.10, 0.0, 0.0), (0.8999, 0.0, 0.0), (0.90, 0.0, 1.0)],
)
def test_low_is_below_ten_and_high_from_ninety(util, low, high):
    columns = close(each_second([util] * 10)).columns

    assert (columns["util_low_fraction"], columns["util_high_fraction"]) == (low, high)


@pytest.mark.parametrize("percent", range(101))
def test_a_steady_value_averages_to_itself(percent):
    readings = [reading(0.123 + second, util=percent / 100) for second in range(10)]

    assert close(readings).columns["util_mean"] == percent / 100


def test_energy_is_the_counters_difference():
    readings = [
        reading(second, power_w=100.0, energy_j=5000.0 + 200.0 * second) for second in range(11)
    ]

    assert close(readings).columns["energy_j"] == pytest.approx(2000.0)


def test_a_counter_that_falls_was_reset_and_power_fills_in():
    counters = [1000.0, 1200.0, 50.0, 250.0]
    readings = [
        reading(second, power_w=100.0, energy_j=value) for second, value in enumerate(counters)
    ]

    assert close(readings, end_s=3).columns["energy_j"] == pytest.approx(200.0 + 100.0 + 200.0)


@pytest.mark.parametrize(("joules", "expected"), [(910.0, 910.0), (911.0, 100.0)])
def test_a_counter_that_claims_more_than_the_board_can_draw_is_not_believed(joules, expected):
    readings = [reading(0, power_w=100.0, energy_j=0.0), reading(1, power_w=100.0, energy_j=joules)]

    assert close(readings, end_s=1).columns["energy_j"] == pytest.approx(expected)


def test_energy_without_a_counter_is_the_trapezoid_of_power():
    readings = [reading(0, power_w=100.0), reading(1, power_w=300.0), reading(2, power_w=300.0)]

    assert close(readings, end_s=2).columns["energy_j"] == pytest.approx(200.0 + 300.0)


def test_energy_with_a_piece_missing_is_not_read():
    readings = [reading(0, power_w=100.0), reading(1), reading(2, power_w=100.0)]

    columns = close(readings, end_s=3).columns

    assert "energy_j" not in columns
    assert columns["power_w"] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("watts", "means", "spin"),
    [
        (196.0, {}, 1.0),  # 70 + 0.20 x (700 - 70)
        (196.1, {}, 0.0),
        (196.0, {"tensor_active": 0.0049, "dram_active": 0.019}, 1.0),
        (196.0, {"tensor_active": 0.005}, 0.0),
        (196.0, {"dram_active": 0.02}, 0.0),
    ],
)
def test_a_gpu_that_waits_in_a_kernel_spins(watts, means, spin):
    assert (
        close(each_second([0.95] * 10, power_w=watts, means=means)).columns["spin_fraction"] == spin
    )


def test_spinning_needs_utilisation_from_ninety_five():
    assert close(each_second([0.94] * 10, power_w=100.0)).columns["spin_fraction"] == 0.0


@pytest.mark.parametrize(
    "facts", [{"model": "NVIDIA H100 NVL"}, {"model": None}, {"power_limit_w": None}]
)
def test_spinning_is_not_read_where_its_ceiling_is_not_known(facts):
    assert (
        "spin_fraction"
        not in close(each_second([1.0] * 10, power_w=100.0), facts=gpu(**facts)).columns
    )


def test_averages_of_the_source_hold_back_to_the_one_before():
    readings = [
        reading(0),
        reading(2, means={"sm_active": 0.2}),
        reading(10, means={"sm_active": 0.7}),
    ]

    columns = close(readings).columns

    assert columns["sm_active"] == pytest.approx(0.6)  # 2 s of 0.2 and 8 s of 0.7
    assert columns["sm_active_max"] == 0.7


def test_an_average_read_just_after_the_start_is_the_window_befores_and_not_this_ones_highest():
    readings = [
        reading(-1),
        reading(0.002, means={"sm_active": 1.0}),
        reading(10.002, means={"sm_active": 0.0}),
    ]

    columns = close(readings).columns

    assert columns["sm_active"] == pytest.approx(0.0002)  # its last 2 ms of 10 s
    assert "sm_active_max" not in columns  # one average has no highest


def test_memory_and_temperature_are_means_over_the_time_they_held():
    readings = [
        reading(0, memory_used_bytes=0, temperature_c=30),
        reading(1, memory_used_bytes=1000, temperature_c=40),
        reading(2),
    ]

    columns = close(readings, end_s=2).columns

    assert columns["memory_used_bytes"] == 500
    assert columns["temperature_c"] == 35


@pytest.mark.parametrize(
    ("model", "watts"),
    [
        ("NVIDIA A100-SXM4-80GB", 60.0),
        ("NVIDIA H100 80GB HBM3", 70.0),
        ("NVIDIA H100 PCIe", 45.0),
        ("NVIDIA H200", 80.0),
        ("NVIDIA GB200", 145.0),
        ("NVIDIA L40S", 35.0),
        ("NVIDIA L4", 13.0),
        ("NVIDIA A10G", 25.0),
        ("Tesla T4", 10.0),
        ("Tesla V100-SXM2-32GB", 40.0),
        ("NVIDIA GeForce RTX 4090", None),
        (None, None),
    ],
)
def test_idle_power_is_known_by_the_drivers_name(model, watts):
    assert idle_power_w(model) == watts


@given(
    st.lists(
        st.tuples(
            st.integers(0, 12_000),
            st.one_of(st.none(), st.floats(0, 1)),
            st.one_of(st.none(), st.floats(0, 900)),
        ),
        max_size=30,
    )
)
def test_any_readings_give_a_window_within_its_bounds(rows):
    ordered = sorted({at: (util, watts) for at, util, watts in rows}.items())

    window = close([reading(at / 1000, util=util, power_w=watts) for at, (util, watts) in ordered])

    assert 0 <= window.observed_ms <= 10_000
    assert all(value is not None for value in window.columns.values())
    assert -1e-9 <= window.columns.get("util_mean", 0) <= 1 + 1e-9
    assert (
        window.columns.get("util_min", 0)
        <= window.columns.get("util_p50", 0.5)
        <= window.columns.get("util_max", 1)
    )


@given(st.lists(st.integers(1, 3_000), min_size=2, max_size=40))
def test_windows_side_by_side_observe_what_one_window_over_both_does(gaps):
    times, now = [], 0
    for gap in gaps:
        now += gap
        times.append(now)
    readings = [reading(at / 1000, util=1.0) for at in times]

    def observed(start_s, end_s):
        return close_window(
            readings,
            gpu=gpu(),
            start_ms=START + start_s * 1000,
            end_ms=START + end_s * 1000,
            interval_ms=1000,
        ).observed_ms

    assert observed(0, 10) + observed(10, 20) == observed(0, 20)


def test_an_average_that_the_wire_does_not_name_is_no_trouble():
    readings = [
        reading(second, util=0.5, means={"of_a_later_version": 0.5}) for second in range(11)
    ]

    assert close(readings).columns["util_mean"] == 0.5
