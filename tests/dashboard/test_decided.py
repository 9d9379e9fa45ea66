"""Windows put together by the rule that decided them."""

from dataclasses import replace

from fleetwatch.dashboard.decided import Time, by_rule
from fleetwatch.ledger.explain import Part, Stretch

W = 10_000


def window(number, rule, *, state="useful", job=7, values=None, gpu_ms=W):
    part = Part(state, "", "", "", "utilization", "", gpu_ms)
    return Stretch(
        1, job, number * W, (number + 1) * W, values or {"util_mean": 0.5}, W, 1, [rule], [part]
    )


def test_windows_that_differ_in_measured_numbers_alone_are_one_line_with_their_range():
    [line] = by_rule(
        [
            window(0, "a = 0.5, w = 0.40"),
            window(1, "a = 0.25, w = 0.40"),
            window(2, "a = 1e-05, w = 0.40"),
        ]
    )

    assert line.rule == ["a = 1e-05 to 0.5, w = 0.40"]
    assert (line.count, line.parts, line.times) == (3, {"useful": 3 * W}, [Time(0, 3 * W, 3)])


def test_times_of_one_rule_that_another_interrupts_stand_apart_in_its_line():
    found = [
        window(0, "active"),
        window(1, "quiet", state="stalled"),
        window(2, "active"),
        window(3, "active"),
    ]

    active, quiet = by_rule(found)

    assert active.times == [Time(0, W, 1), Time(2 * W, 4 * W, 2)]
    assert (active.start_ms, active.end_ms, active.count) == (0, 4 * W, 3)
    assert quiet.times == [Time(W, 2 * W, 1)]


def test_each_run_is_a_line_of_its_own_and_so_is_each_name():
    first, second = by_rule(
        [window(0, "in a run since 08:30:00 of 50 s"), window(1, "in a run since 08:10:20 of 50 s")]
    )

    assert first.rule == ["in a run since 08:30:00 of 50 s"]
    assert second.rule == ["in a run since 08:10:20 of 50 s"]
    assert len(by_rule([window(0, "xid_79 was told"), window(1, "xid_48 was told")])) == 2


def test_what_was_measured_has_words_and_units():
    values = {"util_mean": 0.5, "power_w": 300.4, "pcie_rx_bytes_s": 35e6, "process_count": 2.0}
    more = values | {"util_mean": 0.75, "memory_used_bytes": 45.2e9}

    [line] = by_rule([window(0, "busy", values=values), window(1, "busy", values=more)])

    assert line.measured == [
        ("utilisation, mean", "50 % to 75 %"),
        ("power", "300 W"),
        ("PCIe traffic to the GPU", "35 MB/s"),
        ("processes", "2"),
        ("memory in use", "45.2 GB"),
    ]


def test_each_holder_state_and_a_missing_window_has_a_line_of_its_own():
    missing = Stretch(
        1, 7, 3 * W, 4 * W, None, None, 1, ["same"], [Part("useful", "", "", "", "", "", W)]
    )

    assert (
        len(
            by_rule(
                [
                    window(0, "same"),
                    window(1, "same", job=8),
                    window(2, "same", state="idle"),
                    missing,
                ]
            )
        )
        == 4
    )


def test_the_rule_with_most_time_comes_first_and_values_are_ranges_of_what_was_read():
    found = [
        window(0, "short", values={"power_w": 90.0}),
        window(1, "long", values={"power_w": 70.0}),
        window(2, "long", values={"power_w": 300.5, "sm_active": 0.1}),
    ]

    first, second = by_rule(found)

    assert first.values == {"power_w": (70.0, 300.5), "sm_active": (0.1, 0.1)}
    assert second.values == {"power_w": (90.0, 90.0)}


def test_of_many_times_the_first_are_shown_and_the_rest_counted():
    found = [window(number, "busy" if number % 2 else "quiet") for number in range(2 * 53)]

    line, _ = by_rule(found)

    assert (len(line.shown), line.left_off) == (50, 3)


def test_times_that_no_window_covers_are_called_gaps():
    gap = replace(window(0, "the driver lost it"), values=None)

    several = by_rule([gap, window(1, "the driver lost it"), window(2, "the driver lost it")])

    assert sorted((line.count, line.what) for line in several) == [
        (1, "gap without windows"),
        (2, "windows"),
    ]
