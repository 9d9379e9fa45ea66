import pytest

from agent.loop import window_of
from agent.readings import (
    Allocation,
    Event,
    PacedSource,
    SourceError,
    SourceStatus,
    UnreachableError,
    Workload,
)
from agent.sampler import Recorder, Sampler
from agent.sources.dcgm import DCGMSource
from agent.sources.dcgm import source as dcgm
from tests.agent.exporter import Exporter
from tests.agent.factories import START

POD = ',namespace="nlp",pod="train-0"'
NOBODY = ',namespace="",pod=""'
KEY = "kubernetes/default/nlp/train-0"


@pytest.fixture
def exporter():
    exporter = Exporter()
    exporter.says("DCGM_FI_DEV_GPU_UTIL 5", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 1000")
    yield exporter
    exporter.close()


def opened(exporter):
    return DCGMSource(exporter.url, cluster="default", now_ms=START - 2000)


def at(second):
    return START + second * 1000


def gpu_says(exporter, *, energy, util=5, more=""):
    labels = 'gpu="0",UUID="GPU-1"' + more
    exporter.says(
        "DCGM_FI_DEV_GPU_UTIL{%s} %d" % (labels, util),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{%s} %d" % (labels, energy),
    )


def test_the_gpus_are_those_that_the_exporter_names(exporter):
    source = opened(exporter)

    assert [(gpu.uuid, gpu.index, gpu.model) for gpu in source.gpus()] == [
        ("GPU-1", 0, "NVIDIA L4")
    ]
    assert (source.driver(), source.processes("GPU-1"), exporter.asked) == (
        "580.105.08",
        None,
        ["/metrics"],
    )


def test_an_exporter_is_read_at_a_pace_of_its_own(exporter):
    source = opened(exporter)

    assert isinstance(source, PacedSource)
    assert source.interval_ms == 10_000


def test_one_scrape_serves_all_gpus_for_ten_seconds(exporter):
    exporter.says(*('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-%d"} 5' % number for number in range(8)))
    source = opened(exporter)

    given = [
        [source.read("GPU-%d" % number, at(second)) for number in range(8)] for second in range(11)
    ]

    assert len(exporter.asked) == 3  # at the start, at 0 s and at 10 s
    assert [sum(reading is not None for reading in readings) for readings in given] == [8] + [
        0
    ] * 9 + [8]
    assert given[0][0].at_ms == at(0)


def test_the_same_values_again_are_held_but_bring_no_energy(exporter):
    source = opened(exporter)
    gpu_says(exporter, energy=2000)
    first = source.read("GPU-1", at(0))

    again = source.read("GPU-1", at(10))

    assert (first.util, first.energy_j) == (0.05, 2.0)
    assert (again.at_ms, again.util, again.energy_j) == (at(10), 0.05, None)


def test_an_exporter_that_no_longer_collects_is_not_observed(exporter):
    source = opened(exporter)
    for second in (0, 30):  # its period: 30 s
        gpu_says(exporter, energy=1000 + second)
        source.read("GPU-1", at(second))

    # 70 s: 40 s after the last collection
    held = [source.read("GPU-1", at(second)).util for second in (40, 50, 60, 70)]
    with pytest.raises(
        SourceError, match=r"answers with the same values again and again: it no longer collects"
    ):
        source.read("GPU-1", at(80))

    assert held == [0.05] * 4
    gpu_says(exporter, energy=9000)
    assert source.read("GPU-1", at(90)).energy_j == 9.0


@pytest.mark.parametrize(("period", "last", "gone"), [(10, 20, 30), (20, 50, 60), (60, 150, 160)])
def test_how_long_a_value_holds_is_learnt_from_the_exporter(exporter, period, last, gone):
    source = opened(exporter)
    for number in range(2):
        gpu_says(exporter, energy=2000 + number)
        source.read("GPU-1", at(number * period))

    for second in range(period + 10, last + 1, 10):
        assert source.read("GPU-1", at(second)) is not None
    with pytest.raises(SourceError):
        source.read("GPU-1", at(gone))


def test_without_an_energy_counter_the_same_values_may_be_new(exporter):
    exporter.says("DCGM_FI_DEV_GPU_UTIL 0")
    source = opened(exporter)

    assert all(source.read("GPU-1", at(second)).util == 0 for second in range(0, 300, 10))


def test_an_exporter_that_is_down_costs_the_windows_and_is_there_again_by_itself(exporter):
    source = opened(exporter)
    exporter.status = 503
    with pytest.raises(SourceError, match="answers 503"):
        source.read("GPU-1", at(0))
    with pytest.raises(SourceError):
        source.read("GPU-1", at(1))
    assert len(exporter.asked) == 2  # a refusal is not asked again before the next interval

    exporter.status = 200

    assert source.read("GPU-1", at(10)).util == 0.05
    assert source.gpus()[0].uuid == "GPU-1"


def test_an_exporter_that_is_away_at_the_start_is_said_and_nothing_is_said_of_the_driver(exporter):
    exporter.close()
    sampler = Sampler(
        lambda: opened(exporter),
        lambda source: None,
        window_ms=10_000,
        interval_ms=1000,
        recorder=Recorder(),
    )

    sampler.tick(at(0))

    assert sampler.take_events() == []
    with pytest.raises(UnreachableError, match="does not answer: Connection refused"):
        opened(exporter)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no GPU: is it a dcgm-exporter"),
        ("<html>", "names no GPU"),
        ("go_info 1", "names no GPU"),
    ],
)
def test_what_is_no_dcgm_exporter_is_said(exporter, text, said):
    exporter.text = text

    with pytest.raises(UnreachableError, match=said):
        opened(exporter)


def test_an_answer_that_never_ends_is_refused(exporter, monkeypatch):
    monkeypatch.setattr(dcgm, "MAX_BYTES", 100_000)
    exporter.chunks = [b"x" * 65_536] * 50

    with pytest.raises(UnreachableError, match="answers with more than"):
        opened(exporter)


def test_an_answer_that_drips_is_refused(exporter, monkeypatch):
    monkeypatch.setattr(dcgm, "TIMEOUT_S", 0.05)
    exporter.chunks = (b"x" for _ in iter(int, 1))  # one byte after the other, for ever

    with pytest.raises(UnreachableError, match="too slow"):
        opened(exporter)


def test_a_service_that_answers_for_another_node_is_noticed(exporter):
    source = opened(exporter)
    exporter.says('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-9"} 5')

    with pytest.raises(
        SourceError, match="now answers for other GPUs: give the address of this node's own"
    ):
        source.read("GPU-1", at(0))

    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1"]


def test_a_gpu_that_comes_later_is_taken_up_and_one_that_goes_gives_nothing(exporter):
    source = opened(exporter)
    exporter.says('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 5', 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 6')
    source.read("GPU-1", at(0))
    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1", "GPU-2"]

    exporter.says('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 7')

    assert (source.read("GPU-1", at(10)), source.read("GPU-2", at(10)).util) == (None, 0.07)


def test_lines_that_can_not_be_understood_are_counted_for_the_operator(exporter):
    exporter.says("DCGM_FI_DEV_GPU_UTIL 5", 'torn{UUID="GPU-1', "<html>")

    assert opened(exporter).notes() == [
        "2 lines of the exporter's answer can't be understood, the first: torn{UUID=\"GPU-1"
    ]


def test_a_new_xid_is_an_event_and_an_old_one_is_not(exporter):
    told = []
    exporter.says("DCGM_FI_DEV_XID_ERRORS 43")  # from before our time
    source = opened(exporter)
    for second, xid in ((0, 43), (10, 79), (20, 79), (30, 0), (40, 79)):
        exporter.says("DCGM_FI_DEV_XID_ERRORS %d" % xid)
        source.read("GPU-1", at(second))
        told += source.events(at(second))

    assert told == [
        Event(at(second), "xid", "GPU-1", 79, "XID 79 by dcgm-exporter's gauge")
        for second in (10, 40)
    ]


def test_the_first_xid_of_an_exporter_that_had_none_is_an_event(exporter):
    source = opened(exporter)
    exporter.says("DCGM_FI_DEV_GPU_UTIL 5", "DCGM_FI_DEV_XID_ERRORS 31")
    source.read("GPU-1", at(0))

    assert [event.code for event in source.events(at(0))] == [31]


def test_throttling_is_the_counter_s_share_of_the_time_between_two_collections(exporter):
    source = opened(exporter)
    for second, nanoseconds in ((0, 1_000_000_000), (10, 3_000_000_000)):
        exporter.says("DCGM_FI_DEV_THERMAL_VIOLATION %d" % nanoseconds)
        reading = source.read("GPU-1", at(second))

    assert reading.means == {"throttle_thermal_ratio": pytest.approx(0.2)}


class Host:
    """What the host's own sources say."""

    def resolve(self, processes, *, gpus, start_ms, end_ms):
        return Workload(sources=[SourceStatus("process", ok=True, seen_ms=end_ms)])


def resolved(source, workloads, second):
    source.read("GPU-1", at(second))
    return workloads.resolve({}, gpus=source.gpus(), start_ms=at(second - 10), end_ms=at(second))


def test_the_pod_in_the_labels_is_a_job_that_holds_the_gpu(exporter):
    gpu_says(exporter, energy=1, more=POD)
    source = opened(exporter)
    workloads = source.workloads(Host)

    first, second = resolved(source, workloads, 10), resolved(source, workloads, 20)

    (job,) = first.jobs
    assert (job.key, job.scheduler, job.cluster, job.name, job.account, job.state) == (
        KEY,
        "kubernetes",
        "default",
        "nlp/train-0",
        "nlp",
        "RUNNING",
    )
    assert (
        first.allocations
        == second.allocations
        == [Allocation("GPU-1", KEY, "kubernetes", at(0), None, None)]
    )
    assert first.sources == [SourceStatus("kubernetes", ok=True, seen_ms=at(10))]


def test_empty_labels_are_an_answer_nobody_holds_it(exporter):
    gpu_says(exporter, energy=1, more=NOBODY)
    source = opened(exporter)

    workload = resolved(source, source.workloads(Host), 10)

    assert (workload.jobs, workload.allocations) == ([], [])
    assert workload.sources == [SourceStatus("kubernetes", ok=True, seen_ms=at(10))]


def test_without_labels_the_host_s_own_sources_are_asked(exporter):
    source = opened(exporter)

    assert resolved(source, source.workloads(Host), 10).sources == [
        SourceStatus("process", ok=True, seen_ms=at(10))
    ]


@pytest.mark.parametrize("kind", ["kubernetes", "slurm", "declared"])
@pytest.mark.parametrize("ok", [True, False])
def test_a_scheduler_that_the_host_can_ask_itself_is_believed_before_the_labels(exporter, kind, ok):
    class Books:
        def resolve(self, processes, *, gpus, start_ms, end_ms):
            return Workload(sources=[SourceStatus(kind, ok=ok, seen_ms=end_ms)])

    gpu_says(exporter, energy=1, more=POD)
    source = opened(exporter)

    workload = resolved(source, source.workloads(Books), 10)

    assert (workload.sources, workload.jobs) == ([SourceStatus(kind, ok=ok, seen_ms=at(10))], ())


def test_a_pod_that_went_holds_nothing_and_one_that_came_holds_from_then(exporter):
    gpu_says(exporter, energy=1, more=POD)
    source = opened(exporter)
    workloads = source.workloads(Host)
    resolved(source, workloads, 10)

    gpu_says(exporter, energy=2, more=',namespace="nlp",pod="train-1"')
    after = resolved(source, workloads, 20)

    assert [(one.job_key, one.start_ms) for one in after.allocations] == [
        ("kubernetes/default/nlp/train-1", at(10))
    ]


def test_a_gpu_without_labels_beside_one_with_them_is_held_by_nobody(exporter):
    exporter.says(
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"%s} 5' % POD, 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 0'
    )
    source = opened(exporter)

    workload = resolved(source, source.workloads(Host), 10)

    assert [one.uuid for one in workload.allocations] == ["GPU-1"]
    assert workload.sources[0].ok is True


def test_labels_that_vanish_are_believed_after_a_minute(exporter):
    gpu_says(exporter, energy=1, more=POD)
    source = opened(exporter)
    workloads = source.workloads(Host)
    resolved(source, workloads, 0)
    told = []
    for second in range(10, 71, 10):
        gpu_says(exporter, energy=second)
        told.append((second, resolved(source, workloads, second)))

    assert [second for second, workload in told if workload.sources[0].ok] == [60, 70]
    assert all(workload.allocations == [] for _, workload in told)


def test_while_the_exporter_is_away_nobody_knows_who_holds_what(exporter):
    gpu_says(exporter, energy=1, more=POD)
    source = opened(exporter)
    workloads = source.workloads(Host)
    resolved(source, workloads, 10)
    exporter.status = 500
    with pytest.raises(SourceError):
        source.read("GPU-1", at(20))

    away = workloads.resolve({}, gpus=source.gpus(), start_ms=at(10), end_ms=at(20))

    assert away.sources == [SourceStatus("kubernetes", ok=False, seen_ms=at(10))]
    assert (away.jobs, away.allocations) == ([], [])


def test_a_batch_job_of_an_hpc_mapping_is_slurm_s(exporter):
    gpu_says(exporter, energy=1, more=',hpc_job="4711"')
    source = DCGMSource(exporter.url, cluster="della", now_ms=START)

    workload = resolved(source, source.workloads(Host), 10)

    assert [(job.key, job.id) for job in workload.jobs] == [("slurm/della/4711", "4711")]
    assert [one.source for one in workload.allocations] == ["slurm"]


def test_a_whole_window_is_observed_between_two_scrapes_and_a_lost_one_is_not(exporter):
    source = opened(exporter)
    sampler = Sampler(
        lambda: source,
        lambda source: source.workloads(Host),
        window_ms=10_000,
        interval_ms=1000,
        recorder=Recorder(),
    )
    labels = 'UUID="GPU-1"'
    for second in range(-1, 32):
        exporter.status = 500 if second >= 20 else 200
        exporter.says(
            "DCGM_FI_DEV_GPU_UTIL{%s} 40" % labels,
            # 100 W
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{%s} %d" % (labels, 100_000 * (second + 2)),
            "DCGM_FI_PROF_SM_ACTIVE{%s} 0.3" % labels,
        )
        sampler.tick(at(second))

    windows = []
    for second in (0, 10, 20):
        observed = sampler.take(at(second), at(second + 10))
        windows.append(
            window_of(observed, observed.gpus[0], start_ms=at(second), end_ms=at(second + 10))
        )

    assert [window.observed_ms for window in windows] == [10_000, 10_000, 5_000]
    assert (windows[0].columns["util_mean"], windows[0].columns["sm_active"]) == (0.4, 0.3)
    assert windows[0].columns["energy_j"] == 1000
