from datetime import timedelta

import numpy as np
import pytest

from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import batch_columns, frames, join, kept_windows, seal, sealed
from fleetwatch.telemetry.kept_windows import KeptWindows
from fleetwatch.telemetry.span_counts import Spans
from fleetwatch.telemetry.window_tables import WINDOW_INTS
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store

pytestmark = pytest.mark.django_db


def read_hour(node, columns=("util_mean",)):
    return frames.read_windows(node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, columns)


def of_nodes(nodes, start_ms, end_ms, columns, host_columns=()):
    return frames.of_nodes([node.pk for node in nodes], start_ms, end_ms, columns, host_columns)


def test_nothing_stored_is_an_empty_frame_with_the_wanted_columns():
    frame = read_hour(make_node(), ("power_w", "live_process_count"))

    assert len(frame) == 0
    assert frame.gpu_id.dtype == np.int64
    assert {name: len(values) for name, values in frame.columns.items()} == {
        "power_w": 0,
        "live_process_count": 0,
    }


def test_windows_are_sorted_and_a_value_not_read_is_nan():
    node = make_node()
    first, second = node.gpus.order_by("index").values_list("pk", flat=True)
    store(
        node,
        starts=[HOUR_START_MS + 10_000, HOUR_START_MS, HOUR_START_MS],
        positions=[0, 1, 0],
        columns={"util_mean": [0.1, 0.2, None]},
    )

    frame = read_hour(node, ("util_mean", "power_w"))

    assert list(zip(frame.gpu_id.tolist(), frame.start_ms.tolist(), strict=True)) == [
        (first, HOUR_START_MS),
        (first, HOUR_START_MS + 10_000),
        (second, HOUR_START_MS),
    ]
    assert np.isnan(frame.columns["util_mean"][0])
    assert frame.columns["util_mean"][1:].tolist() == [0.1, 0.2]
    assert np.isnan(frame.columns["power_w"]).all()


def test_only_windows_that_overlap_the_interval_are_there():
    node = make_node()
    store(
        node,
        starts=[
            HOUR_START_MS - 20_000,
            HOUR_START_MS - 10_000,
            HOUR_START_MS,
            HOUR_START_MS + 10_000,
        ],
    )

    frame = frames.read_windows(node.pk, HOUR_START_MS - 5_000, HOUR_START_MS + 10_000, ())

    assert frame.start_ms.tolist() == [HOUR_START_MS - 10_000, HOUR_START_MS]


def test_each_batch_keeps_its_own_window_length():
    node = make_node()
    store(node, starts=[HOUR_START_MS], window_s=10)
    store(node, sequence=2, starts=[HOUR_START_MS + 10_000], window_s=300)

    assert read_hour(node).end_ms.tolist() == [HOUR_START_MS + 10_000, HOUR_START_MS + 310_000]


def test_times_are_corrected_by_the_batchs_offset():
    node = make_node()
    store(node, starts=[HOUR_START_MS - 60_000], offset_ms=60_000)

    frame = read_hour(node)

    assert frame.start_ms.tolist() == [HOUR_START_MS]
    assert frame.boot_start_ms.tolist() == [HOUR_START_MS - 86_400_000]


def test_overlapping_windows_of_two_boots_are_both_there():
    node = make_node()
    store(node, starts=[HOUR_START_MS])
    store(node, starts=[HOUR_START_MS], boot_id="b", boot_start_ms=5)

    assert read_hour(node).boot_start_ms.tolist() == [5, HOUR_START_MS - 86_400_000]


def test_a_window_sent_twice_within_a_batch_counts_once_as_first_sent():
    node = make_node()
    store(node, starts=[HOUR_START_MS, HOUR_START_MS], columns={"util_mean": [0.1, 0.9]})

    assert read_hour(node).columns["util_mean"].tolist() == [0.1]


def test_a_quarantined_batch_is_not_read():
    node = make_node()
    store(node, quarantined=True)

    assert len(read_hour(node)) == 0


def test_live_processes_leave_out_zombies_dead_and_stuck_ones():
    node = make_node()
    states = [(0, "Z"), (0, "D"), (0, "S"), (1, "X"), (1, "R"), (1, None)]
    processes = [
        {"gpu": gpu, "pid": pid, "state": state} for pid, (gpu, state) in enumerate(states)
    ]
    starts, positions = [HOUR_START_MS] * 2 + [HOUR_START_MS + 10_000], [0, 1, 1]
    store(
        node,
        starts=starts,
        positions=positions,
        columns={"process_count": [3, 3, None]},
        processes=processes,
    )

    live = read_hour(node, ("live_process_count",)).columns["live_process_count"]

    assert live[:2].tolist() == [1.0, 2.0]
    assert np.isnan(live[2])


def test_fewer_counted_than_listed_dead_is_zero_live():
    node = make_node()
    processes = [{"gpu": 0, "pid": pid, "state": "Z"} for pid in range(3)]
    store(node, starts=[HOUR_START_MS], columns={"process_count": [2]}, processes=processes)

    assert read_hour(node, ("live_process_count",)).columns["live_process_count"].tolist() == [0.0]


def test_ratios_are_clamped_as_the_wire_clamps_them():
    node = make_node()
    store(node, columns={"util_mean": [1.0000005, -0.0000005], "job_cpu_ratio": [7.5, 0]})

    frame = read_hour(node, ("util_mean", "job_cpu_ratio"))

    assert frame.columns["util_mean"].tolist() == [1.0, 0.0]
    assert frame.columns["job_cpu_ratio"].tolist() == [7.5, 0.0]


def test_unknown_columns_and_null_lists_are_stepped_over():
    node = make_node()
    store(
        node,
        columns={"util_mean": [0.5, 0.5], "from_the_future": [{"a": 1}, "x"], "power_w": None},
        processes=None,
        host=None,
    )

    frame = read_hour(node, ("util_mean", "from_the_future", "power_w"))

    assert frame.columns["util_mean"].tolist() == [0.5, 0.5]
    assert np.isnan([frame.columns["from_the_future"], frame.columns["power_w"]]).all()


def test_one_gpu_is_read_alone():
    node = make_node()
    second = node.gpus.get(index=1)
    store(node, positions=[0, 1])

    frame = frames.read_gpu(
        second.pk, node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, ("util_mean",)
    )

    assert frame.gpu_id.tolist() == [second.pk]
    assert frame.start_ms.tolist() == [HOUR_START_MS + 10_000]


def test_several_nodes_at_once_say_what_each_says_alone():
    nodes = [make_node("n1"), make_node("n2"), make_node("n3")]
    hour = HOUR_START_MS, HOUR_START_MS + HOUR_MS
    for place, node in enumerate(nodes[:2]):
        store(
            node,
            starts=[HOUR_START_MS - 10_000, HOUR_START_MS],
            columns={"util_mean": [0.1 * place, 0.5]},
        )

    found = list(of_nodes(nodes, *hour, ("util_mean",), ("cpu_ratio",)))

    assert [node_id for node_id, _, _ in found] == [node.pk for node in nodes]
    for node, (_, windows, host) in zip(nodes, found, strict=True):
        alone = read_hour(node, ("util_mean",))
        assert (windows.gpu_id.tolist(), windows.start_ms.tolist()) == (
            alone.gpu_id.tolist(),
            alone.start_ms.tolist(),
        )
        np.testing.assert_array_equal(windows.columns["util_mean"], alone.columns["util_mean"])
        assert len(host) == len(frames.host(node.pk, *hour, ("cpu_ratio",)))
    whole = frames.together([windows for _, windows, _ in found])
    assert (len(whole), len(whole.columns["util_mean"])) == (2, 2)


def keys(frame):
    return list(
        zip(
            *(
                values.tolist()
                for values in (frame.gpu_id, frame.start_ms, frame.boot_start_ms, frame.sequence)
            ),
            strict=True,
        )
    )


def stored_in_every_way():
    """Two nodes: the first with a joined chunk, hours sealed since, and hot batches that reach into
    both; the other with hot ones alone.
    """
    full, other = make_node("n1"), make_node("n2")
    quarter_ms = HOUR_START_MS - 4 * HOUR_MS
    hours = [quarter_ms + hour * HOUR_MS for hour in range(8)]
    for sequence, hour_ms in enumerate(hours, 1):
        minute = [hour_ms, hour_ms + 10_000] * 2
        store(
            full,
            sequence=sequence,
            starts=minute,
            positions=[1, 1, 0, 0],
            columns={"util_mean": [0.1 * sequence, None, 0.5, 0.25]},
            host={"start_ms": [hour_ms], "cpu_ratio": [0.1 * sequence]},
        )
    now = HOUR + timedelta(hours=5)
    seal.seal_closed_hours(now, limit=100)
    join.join_complete_spans(now, limit=100)
    for sequence, starts in enumerate(
        ([hours[1], hours[1] + 5_000], [hours[7], hours[7] + 20_000])
    ):
        store(
            full,
            boot_id="boot-b",
            boot_start_ms=5,
            sequence=sequence,
            starts=starts,
            positions=[1, 0],
            columns={"util_mean": [0.9, 0.8]},
            host={"start_ms": starts[1:], "cpu_ratio": [0.5]},
        )
    host = {"start_ms": [hours[2]], "cpu_ratio": [0.75]}
    store(other, starts=[hours[2], hours[0]], host=host)
    return [full, other], quarter_ms


@pytest.mark.parametrize("whole_bytes", [65_536, 0])
def test_nodes_stored_in_every_way_say_together_what_each_says_alone(monkeypatch, whole_bytes):
    monkeypatch.setattr(sealed, "WHOLE_BYTES", whole_bytes)
    nodes, start_ms = stored_in_every_way()
    asked = start_ms + 5_000, start_ms + 8 * HOUR_MS, ("util_mean", "power_w")

    windows = {node_id: frame for node_id, frame, _ in of_nodes(nodes, *asked)}

    assert [len(windows[node.pk]) for node in nodes] == [36, 2]
    for node in nodes:
        frame, alone = windows[node.pk], frames.read_windows(node.pk, *asked)
        assert keys(frame) == sorted(set(keys(frame))) == keys(alone)
        np.testing.assert_array_equal(frame.columns["util_mean"], alone.columns["util_mean"])
        assert np.isnan(frame.columns["power_w"]).all()


def test_parts_of_nodes_have_each_window_once_however_it_is_stored():
    nodes, start_ms = stored_in_every_way()
    node_ids = [node.pk for node in nodes]
    columns = ("util_mean", "power_w")

    # with late batches that reach into chunks; without these, of a joined chunk and what came after
    for first_hour, last_hour, parts_of_full in ((0, 8, 1), (2, 7, 2)):
        asked = start_ms + first_hour * HOUR_MS, start_ms + last_hour * HOUR_MS
        parts = list(frames.parts_of_nodes(node_ids, *asked, columns))

        assert sum(node_id == nodes[0].pk for node_id, _ in parts) == parts_of_full
        assert {node_id for node_id, _ in parts} == set(node_ids)
        for node_id in node_ids:
            whole = frames.read_windows(node_id, *asked, columns)
            every = frames.together([frame for of, frame in parts if of == node_id])
            order = np.lexsort([every.start_ms, every.gpu_id])
            assert sorted(keys(every)) == keys(whole)
            np.testing.assert_array_equal(
                every.columns["util_mean"][order], whole.columns["util_mean"]
            )


@pytest.mark.parametrize("below", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("hours", [(0, 8), (2, 7)])
def test_low_windows_are_counted_in_spans_however_they_are_stored(hours, below):
    nodes, start_ms = stored_in_every_way()
    first_ms, last_ms = (start_ms + hour * HOUR_MS for hour in hours)
    spans = {node.pk: every_kind_of_span(node, first_ms + 5_000, last_ms) for node in nodes}

    counts = dict(frames.low_counts(spans, "util_mean", below=below))

    for node in nodes:
        every = frames.read_windows(node.pk, first_ms, last_ms, ["util_mean"])
        low = every.where(every.columns["util_mean"] < below)
        assert counts[node.pk].tolist() == [
            int(((low.gpu_id == gpu) & (low.start_ms >= start) & (low.start_ms < end)).sum())
            for gpu, start, end in zip(spans[node.pk].gpu_id, *spans[node.pk].edges, strict=True)
        ]


def every_kind_of_span(node, first_ms, last_ms):
    """Of each GPU, and of one that is not there: all of the time, a minute, nothing, a window."""
    gpus = [*node.gpus.values_list("pk", flat=True), 0, 2**40]
    times = [
        (first_ms, last_ms),
        (first_ms, first_ms + 60_000),
        (last_ms, last_ms),
        (last_ms - HOUR_MS, last_ms - HOUR_MS + 1),
    ]
    rows = np.array([(gpu, *time) for gpu in gpus for time in times])
    return Spans(rows[:, 0], rows[:, 1:].T)


def test_no_span_counts_nothing_and_a_gpu_whose_windows_begin_earlier_counts_them():
    node = make_node()
    starts = [HOUR_START_MS + 60_000, HOUR_START_MS, HOUR_START_MS + 10_000]
    store(node, starts=starts, positions=[0, 1, 1], columns={"util_mean": [0.5, 0.0, 0.0]})
    seal.seal_closed_hours(HOUR + timedelta(hours=5), limit=10)
    _, second = node.gpus.order_by("index").values_list("pk", flat=True)
    edges = np.array([[HOUR_START_MS], [HOUR_START_MS + 60_000]])

    [(_, nothing)] = frames.low_counts(
        {node.pk: Spans(np.zeros(0, np.int64), np.zeros((2, 0), np.int64))}, "util_mean", below=0.1
    )
    [(_, low)] = frames.low_counts(
        {node.pk: Spans(np.array([second]), edges)}, "util_mean", below=0.1
    )

    assert (nothing.tolist(), low.tolist()) == ([], [2])


def test_host_samples_alone_are_those_beside_windows_of_which_none_is_decoded(monkeypatch):
    nodes, start_ms = stored_in_every_way()
    asked = start_ms + 5_000, start_ms + 8 * HOUR_MS
    every = of_nodes(nodes, *asked, ("util_mean",), ("cpu_ratio",))
    beside = {node_id: host for node_id, _, host in every}
    monkeypatch.setattr(batch_columns, "windows", None)
    monkeypatch.setattr(frames, "_unpacked", None)

    alone = dict(frames.hosts([node.pk for node in nodes], *asked, ("cpu_ratio",)))

    assert [len(alone[node.pk]) for node in nodes] == [10, 1]
    for node_id, host in beside.items():
        assert samples(alone[node_id]) == samples(host)


def samples(host):
    return list(
        zip(
            *(
                values.tolist()
                for values in (host.start_ms, host.sequence, host.columns["cpu_ratio"])
            ),
            strict=True,
        )
    )


def test_a_chunk_read_by_parts_says_what_it_says_whole(monkeypatch):
    node = make_node()
    numbers = np.random.default_rng(3).random(360)
    starts = [HOUR_START_MS + 10_000 * place for place in range(360)]
    columns = {
        name: (numbers / factor).tolist()
        for factor, name in enumerate(("util_mean", "power_w", "sm_active", "temperature_c"), 1)
    }
    store(node, starts=starts, columns=columns)
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    monkeypatch.setattr(sealed, "SLACK_BYTES", 0)

    found = {}
    for whole_bytes in (65_536, 0):
        monkeypatch.setattr(sealed, "WHOLE_BYTES", whole_bytes)
        found[whole_bytes] = read_hour(node, ("util_mean", "sm_active", "no_such_column"))

    assert found[0].columns["util_mean"].tolist() == numbers.tolist()
    assert (
        found[0].columns["sm_active"].tolist()
        == found[65_536].columns["sm_active"].tolist()
        == columns["sm_active"]
    )
    assert np.isnan(found[0].columns["no_such_column"]).all()
    assert keys(found[0]) == keys(found[65_536])


def test_a_chunk_that_is_written_between_its_parts_is_read_anew(monkeypatch):
    node = make_node()
    numbers = np.random.default_rng(3).random(360).tolist()
    store(
        node,
        starts=[HOUR_START_MS + 10_000 * place for place in range(360)],
        columns={"util_mean": numbers},
    )
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    monkeypatch.setattr(sealed, "WHOLE_BYTES", 0)
    asked = sealed.rows.fetched

    def late_data_first(statement, parameters, **how):
        if statement == sealed.PARTS:
            store(node, sequence=2, starts=[HOUR_START_MS + 5_000], columns={"util_mean": [0.5]})
            seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
        return asked(statement, parameters, **how)

    monkeypatch.setattr(sealed.rows, "fetched", late_data_first)

    assert read_hour(node, ("util_mean",)).columns["util_mean"].tolist() == [
        numbers[0],
        0.5,
        *numbers[1:],
    ]


def test_what_is_kept_is_read_again_as_if_it_were_not():
    nodes = [make_node("a"), make_node("b")]
    kept = KeptWindows(most_bytes=10**6)
    span = (HOUR_START_MS, HOUR_START_MS + HOUR_MS)
    ids = [node.pk for node in nodes]

    def is_as_read():
        again = frames.of_nodes_again(ids, *span, ("util_mean", "live_process_count"), kept)
        order = np.lexsort((again.sequence, again.start_ms, again.gpu_id))
        every = [read for _, read, _ in of_nodes(nodes, *span, ("util_mean", "live_process_count"))]
        for name, values in frames.together(every).table.items():
            np.testing.assert_array_equal(again.table[name][order], values)
        return len(every[1])

    def tell(sequence, at_ms):
        store(nodes[1], sequence=sequence, starts=[at_ms], columns={"util_mean": [sequence / 10]})

    assert is_as_read() == 0
    tell(1, HOUR_START_MS + 20_000)
    store(nodes[0], starts=[HOUR_START_MS - 10_000, HOUR_START_MS - 5_000])
    assert is_as_read() == 1
    tell(2, HOUR_START_MS + 10_000)  # late
    tell(3, HOUR_START_MS + HOUR_MS)  # beyond
    assert is_as_read() == 2
    seal.seal_closed_hours(HOUR + timedelta(hours=2), 100)
    assert is_as_read() == 2
    tell(4, HOUR_START_MS + 50_000)
    assert is_as_read() == 3
    # and with another end
    span = (HOUR_START_MS, HOUR_START_MS + 2 * HOUR_MS)
    assert is_as_read() == 4


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    nodes = [make_node(name) for name in "abc"]
    for node in nodes:
        store(node, starts=[HOUR_START_MS])
    asked = (HOUR_START_MS, HOUR_START_MS + HOUR_MS, ("util_mean",))
    kept = KeptWindows(most_bytes=150)  # two windows: seven whole numbers, a float

    def keep(*several):
        frames.of_nodes_again([node.pk for node in several], *asked, kept)
        names = (*WINDOW_INTS, "util_mean")
        return list(kept.of_nodes([node.pk for node in nodes], (HOUR_START_MS, names)))

    assert keep(*nodes) == [nodes[0].pk, nodes[1].pk]
    assert keep(nodes[2]) == [nodes[0].pk, nodes[1].pk]
    # who was not asked for in ten minutes makes way
    monkeypatch.setattr(kept_windows, "STALE_S", -1.0)
    assert keep(nodes[2]) == [nodes[2].pk]
