import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import batch, wire
from agent.batch import ClosedWindow, merge
from agent.readings import Allocation, Event, Job, Process, SourceStatus, Workload
from agent.window import GPUWindow
from tests.agent.factories import START, gpu

SENDER = batch.Sender("gpu-07", "boot", START, 10, {"pool": "a"})


def window(second=0, uuid="GPU-1", **columns):
    return GPUWindow(uuid, START + second * 1000, 10_000, columns)


def build(closed, *, gpus=None, events=()):
    built = batch.build(
        closed,
        sender=SENDER,
        gpus=gpus or [gpu()],
        agent={"version": "1", "driver": None},
        events=events,
    )
    return wire.decode(wire.encode(built))


def held(key="j", **facts):
    return Allocation("GPU-1", key, "slurm", **{"start_ms": START - 1000, **facts})


def test_windows_become_columns_and_what_nobody_read_is_absent():
    closed = [
        ClosedWindow(START, [window(util_mean=0.5)]),
        ClosedWindow(START + 10_000, [window(10)], host={"cpu_ratio": 0.25}),
    ]

    built = build(closed)

    assert built.windows == {
        "gpu": [0, 0],
        "start_ms": [START, START + 10_000],
        "observed_ms": [10_000] * 2,
        "util_mean": [0.5, None],
    }
    assert built.host == {"start_ms": [START + 10_000], "cpu_ratio": [0.25]}
    assert (built.agent, built.node_labels) == ({"version": "1"}, {"pool": "a"})


def test_rounding_never_leaves_a_ratio_above_one():
    assert build([ClosedWindow(START, [window(util_mean=1.0000000000000002)])]).windows[
        "util_mean"
    ] == [1.0]


def test_jobs_processes_and_events_point_into_the_lists():
    workload = Workload(
        jobs=[Job("slurm/c/1"), Job("slurm/c/2")],
        allocations=[held("slurm/c/2")],
        processes=[Process("GPU-1", 7, "slurm/c/2"), Process("GPU-1", 8), Process("GPU-gone", 9)],
        sources=[SourceStatus("slurm", ok=True)],
    )

    built = build(
        [ClosedWindow(START, [window()], workload)],
        events=[Event(START, "xid", "GPU-1", 79), Event(START, "driver_ok")],
    )

    assert [(item["gpu"], item["job"]) for item in built.allocations] == [(0, 1)]
    assert [(item["pid"], item["job"]) for item in built.processes] == [(7, 1), (8, None)]
    assert [(item["gpu"], item["code"]) for item in built.events] == [(0, 79), (None, None)]


@pytest.mark.parametrize(
    ("why", "sent"),
    [
        ("", {}),
        ("slurmctld is away", {"why": "slurmctld is away"}),
        ("x" * 301, {"why": "x" * 300}),
    ],
)
def test_a_source_that_does_not_answer_says_why(why, sent):
    silent = Workload(sources=[SourceStatus("slurm", ok=False, seen_ms=START, why=why)])

    built = build([ClosedWindow(START, [window()], silent)])

    assert built.sources == [{"kind": "slurm", "ok": False, "seen_ms": START, **sent}]


def test_texts_are_cut_and_cleaned_so_that_no_name_makes_poison():
    job = Job("j", name="n\x00" * 500, user="\ud800", labels={"k": "v" * 9999})

    built = build(
        [
            ClosedWindow(
                START,
                [window()],
                Workload(jobs=[job], processes=[Process("GPU-1", 1, name="p" * 999)]),
            )
        ]
    )

    assert (built.jobs[0]["name"], built.jobs[0]["user"]) == ("n" * 300, "?")
    assert len(built.jobs[0]["labels"]["k"]) == wire.MAX_TEXT
    assert len(built.processes[0]["name"]) == 300


def test_an_allocation_that_a_later_window_no_longer_names_ends_with_the_last_that_did():
    first, second = Workload(jobs=[Job("j")], allocations=[held()]), Workload()

    merged = merge([(START + 10_000, first), (START + 20_000, second)])

    assert [item.end_ms for item in merged.allocations] == [START + 10_000]


def test_an_allocation_that_still_holds_stays_open():
    workload = Workload(jobs=[Job("j")], allocations=[held()])

    assert [item.end_ms for item in merge([(1, workload), (2, workload)]).allocations] == [None]


def test_an_end_that_a_scheduler_knows_is_kept():
    first = Workload(jobs=[Job("j")], allocations=[held()])
    second = Workload(jobs=[Job("j")], allocations=[held(end_ms=START + 12_345)])

    assert [item.end_ms for item in merge([(1, first), (2, second)]).allocations] == [
        START + 12_345
    ]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"start_ms": START + 400}, {"start_ms": START}),  # the prolog's file, then Slurm's record
        ({"start_ms": START}, {"start_ms": START + 400}),
        ({"start_ms": START}, {"start_ms": START + 9_999}),
        ({"start_ms": START}, {"start_ms": None}),
        ({"share": None}, {"share": 1.0}),
        ({"start_ms": START + 400}, {"start_ms": START, "end_ms": START + 15_000}),
    ],
)
def test_a_hold_that_a_later_window_tells_otherwise_is_told_once_as_that_tells_it(first, later):
    workloads = [Workload(jobs=[Job("j")], allocations=[held(**each)]) for each in (first, later)]

    merged = merge([(START + 10_000, workloads[0]), (START + 20_000, workloads[1])])

    assert merged.allocations == [held(**later)]


def test_a_run_that_begins_when_the_last_window_that_named_the_former_ends_is_another():
    former, later = held(start_ms=START), held(start_ms=START + 10_000)

    merged = merge(
        [
            (START + 10_000, Workload(jobs=[Job("j")], allocations=[former])),
            (START + 20_000, Workload(jobs=[Job("j")], allocations=[later])),
        ]
    )

    assert merged.allocations == [held(start_ms=START, end_ms=START + 10_000), later]


def test_a_run_whose_end_is_told_stays_beside_the_next_of_its_job():
    former = held(start_ms=START, end_ms=START + 5_000)
    later = held(start_ms=START + 7_000)

    merged = merge(
        [
            (START + 10_000, Workload(jobs=[Job("j")], allocations=[former])),
            (START + 20_000, Workload(jobs=[Job("j")], allocations=[later])),
        ]
    )

    assert merged.allocations == [former, later]


def test_the_newest_facts_of_a_job_count():
    merged = merge(
        [
            (1, Workload(jobs=[Job("j", state="PENDING")])),
            (2, Workload(jobs=[Job("j", state="RUNNING")])),
        ]
    )

    assert [job.state for job in merged.jobs] == ["RUNNING"]


HOSTILE_TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", " ", "a\x00b", "\ud800", "\x1b[31m", "j" * 500, "GPU-1", "GPU-2", "j"]
)
HOSTILE_WHOLES = st.none() | st.sampled_from(
    [0, 7, -1, START, 2**31, 2**64 - 1, 0x7FFFFFFFFFFFFFF0, 10**30]
)
HOSTILE_AMOUNTS = st.none() | st.sampled_from(
    [0.0, 0.5, 1.0, -1.0, 9.2e18, float("nan"), float("inf")]
)
LABELS = st.dictionaries(HOSTILE_TEXTS, HOSTILE_TEXTS, max_size=70)


@st.composite
def hostile_workloads(draw):
    keys = draw(st.lists(HOSTILE_TEXTS, max_size=4))
    uuids = st.sampled_from(["GPU-1", "GPU-2", "a\x00b"])
    text, whole = (lambda: draw(HOSTILE_TEXTS)), (lambda: draw(HOSTILE_WHOLES))
    jobs = [
        Job(
            key,
            text(),
            text(),
            text(),
            text(),
            text(),
            text(),
            "batch",
            text(),
            whole(),
            whole(),
            whole(),
            whole() or 0,
            draw(LABELS),
        )
        for key in dict.fromkeys(keys)
    ]
    held = [
        Allocation(draw(uuids), key, text(), whole(), whole(), draw(HOSTILE_AMOUNTS))
        for key in keys
    ]
    seen = [
        Process(draw(uuids), whole() or 0, key, whole(), text(), text(), text(), whole())
        for key in keys
    ]
    return Workload(jobs, held, seen, [SourceStatus("slurm", ok=True, seen_ms=whole())])


@settings(deadline=None, max_examples=75)
@given(
    hostile_workloads(),
    st.lists(st.builds(gpu, HOSTILE_TEXTS, index=HOSTILE_WHOLES, memory_total_bytes=HOSTILE_WHOLES,
    power_limit_w=HOSTILE_AMOUNTS,
                       model=HOSTILE_TEXTS, parent_uuid=HOSTILE_TEXTS, mig_profile=HOSTILE_TEXTS,
                       unread=LABELS), max_size=4),
    st.lists(st.builds(Event, HOSTILE_WHOLES.map(lambda at: START if at is None else at),
    st.just("xid"), code=HOSTILE_WHOLES,
                       text=HOSTILE_TEXTS), max_size=4),
    st.dictionaries(st.sampled_from(wire.HOST_COLUMNS), HOSTILE_AMOUNTS, max_size=4),
    LABELS,
)  # fmt: skip
def test_whatever_anybody_said_the_hub_takes_the_batch_and_the_windows_in_it(
    workload, gpus, events, host, labels
):
    closed = [ClosedWindow(START, [window(util_mean=0.5), window(uuid="GPU-2")], workload, host)]
    sender = batch.Sender("gpu-07", "boot", START, 10, labels)

    built = wire.decode(
        wire.encode(
            batch.build(closed, sender=sender, gpus=[gpu(), *gpus], agent={}, events=events)
        )
    )

    assert built.gpus[0]["uuid"] == "GPU-1"
    assert built.windows["util_mean"][0] == 0.5


@pytest.mark.parametrize("key", ["a\x00b", "j" * 401, "slurm/della/1~2"])
def test_of_holders_that_can_not_be_named_nothing_may_be_concluded(key):
    workload = Workload(
        jobs=[Job(key)], allocations=[held(key)], sources=[SourceStatus("slurm", ok=True)]
    )

    built = build([ClosedWindow(START, [window()], workload)])

    assert (built.jobs, built.allocations) == ([], [])
    assert [source["ok"] for source in built.sources] == [False]


def test_more_holders_than_a_batch_takes_are_not_taken_for_free_gpus():
    jobs = [Job("process/n/%d" % number) for number in range(wire.MAX_LIST + 1)]
    workload = Workload(
        jobs, [held(job.key) for job in jobs], sources=[SourceStatus("process", ok=True)]
    )

    built = build([ClosedWindow(START, [window(util_mean=0.5)], workload)])

    assert (len(built.jobs), len(built.allocations), built.sources[0]["ok"]) == (
        wire.MAX_LIST,
        wire.MAX_LIST,
        False,
    )


def test_more_gpus_than_a_batch_takes_do_not_cost_the_others_their_windows():
    gpus = [gpu("GPU-%d" % number) for number in range(wire.MAX_GPUS + 1)]
    windows = [window(uuid=item.uuid, util_mean=0.5) for item in gpus]

    built = build([ClosedWindow(START, windows)], gpus=gpus)

    assert [item["uuid"] for item in built.gpus] == [item.uuid for item in gpus[:-1]]
    assert built.windows["util_mean"] == [0.5] * wire.MAX_GPUS


def test_a_value_that_no_column_takes_costs_itself_alone():
    closed = [
        ClosedWindow(
            START,
            [
                window(util_mean=0.5, power_w=float("nan"), sm_active=float("inf")),
                window(uuid="GPU-2", util_mean=1.5, power_w=300.0, temperature_c=-5.0),
            ],
        )
    ]

    built = build(closed, gpus=[gpu(), gpu("GPU-2")])

    assert built.windows["util_mean"] == [0.5, None]
    assert built.windows["power_w"] == [None, 300.0]
    assert built.windows["temperature_c"] == [None, -5.0]
    assert "sm_active" not in built.windows


def test_an_allocation_never_ends_before_it_begins():
    workload = Workload(jobs=[Job("j")], allocations=[held("j", start_ms=START, end_ms=START - 1)])

    built = build([ClosedWindow(START, [window()], workload)])

    assert [(item["start_ms"], item["end_ms"]) for item in built.allocations] == [
        (START - 1, START - 1)
    ]
