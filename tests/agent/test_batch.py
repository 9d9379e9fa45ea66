from agent import batch, wire
from agent.batch import ClosedWindow, merge
from agent.reading import Allocation, Event, Job, Process, SourceStatus, Workload
from agent.window import GPUWindow
from tests.agent.factories import START, gpu

SENDER = batch.Sender("gpu-07", "boot", START, 10, {"pool": "a"})


def window(second=0, uuid="GPU-1", **columns):
    return GPUWindow(uuid, START + second * 1000, 10_000, columns)


def build(closed, *, gpus=None, events=()):
    built = batch.build(closed, sender=SENDER, gpus=gpus or [gpu()], agent={"version": "1", "driver": None}, events=events)
    return wire.decode(wire.encode(built))


def held(key="j", **facts):
    return Allocation("GPU-1", key, "slurm", **{"start_ms": START - 1000, **facts})


def test_windows_become_columns_and_what_nobody_read_is_absent():
    closed = [ClosedWindow(START, [window(util_mean=0.5)]), ClosedWindow(START + 10_000, [window(10)], host={"cpu_ratio": 0.25})]

    built = build(closed)

    assert built.windows == {"gpu": [0, 0], "start_ms": [START, START + 10_000], "observed_ms": [10_000] * 2, "util_mean": [0.5, None]}
    assert built.host == {"start_ms": [START + 10_000], "cpu_ratio": [0.25]}
    assert (built.agent, built.node_labels) == ({"version": "1"}, {"pool": "a"})


def test_rounding_never_leaves_a_ratio_above_one():
    assert build([ClosedWindow(START, [window(util_mean=1.0000000000000002)])]).windows["util_mean"] == [1.0]


def test_jobs_processes_and_events_point_into_the_lists():
    workload = Workload(
        jobs=[Job("slurm/c/1"), Job("slurm/c/2")],
        allocations=[held("slurm/c/2")],
        processes=[Process("GPU-1", 7, "slurm/c/2"), Process("GPU-1", 8), Process("GPU-gone", 9)],
        sources=[SourceStatus("slurm", ok=True)],
    )

    built = build([ClosedWindow(START, [window()], workload)], events=[Event(START, "xid", "GPU-1", 79), Event(START, "driver_ok")])

    assert [(item["gpu"], item["job"]) for item in built.allocations] == [(0, 1)]
    assert [(item["pid"], item["job"]) for item in built.processes] == [(7, 1), (8, None)]
    assert [(item["gpu"], item["code"]) for item in built.events] == [(0, 79), (None, None)]


def test_texts_are_cut_and_cleaned_so_that_no_name_makes_poison():
    job = Job("j", name="n\x00" * 500, user="\ud800", labels={"k": "v" * 9999})

    built = build([ClosedWindow(START, [window()], Workload(jobs=[job], processes=[Process("GPU-1", 1, name="p" * 999)]))])

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

    assert [item.end_ms for item in merge([(1, first), (2, second)]).allocations] == [START + 12_345]


def test_the_newest_facts_of_a_job_count():
    merged = merge([(1, Workload(jobs=[Job("j", state="PENDING")])), (2, Workload(jobs=[Job("j", state="RUNNING")]))])

    assert [job.state for job in merged.jobs] == ["RUNNING"]
