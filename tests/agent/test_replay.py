import itertools
import json
import time

import pytest

from agent import config, wire
from agent.dispatch import main
from agent.readings import GPUInfo, ProcessReading, Reading
from agent.recording import FileRecorder
from agent.replay import replay
from agent.sending.sender import Sender
from agent.sources.recorded_logs import (
    LogError,
    Options,
    ReplaySource,
    Stamps,
    moment_ms,
    scan,
    zone,
)
from tests.agent.fixtures import HEADER, LOG_START_MS, row, stamp, write


def send(hub, *arguments):
    chosen = config.parse(["replay", *map(str, arguments), "--server", hub.url, "--token", "t"], {})
    return list(replay(chosen, Sender(hub.url, "t").send))


def columns(hub, name):
    return [value for batch in hub.batches for value in batch["windows"].get(name, [])]


def starts(hub):
    return [(start - LOG_START_MS) // 1000 for start in columns(hub, "start_ms")]


def test_a_log_becomes_windows_that_observe_its_whole_length(hub, tmp_path):
    log = write(
        tmp_path / "log.csv", [row(5 * step, util=100 if step < 4 else 0) for step in range(8)]
    )

    done = send(hub, log, "--node", "gpu-07")

    assert (done[0].windows, done[0].batches, len(done[0].log.gpus)) == (4, 1, 1)
    assert starts(hub) == [0, 10, 20, 30]
    assert columns(hub, "observed_ms") == [10_000] * 4
    assert columns(hub, "util_mean") == [1.0, 1.0, 0.0, 0.0]
    assert columns(hub, "memory_used_bytes") == [61440 * 1024 * 1024] * 4
    assert hub.batches[0]["gpus"][0]["model"] == "NVIDIA H100 80GB HBM3"
    assert hub.batches[0]["gpus"][0]["power_limit_w"] == 700.0
    assert hub.batches[0]["agent"]["source"] == "replay"
    assert hub.batches[0]["jobs"] == hub.batches[0]["sources"] == []


def test_replaying_twice_changes_nothing(hub, tmp_path):
    log = write(
        tmp_path / "log.csv",
        [row(5 * step, index=index) for step in range(800) for index in range(12)],
    )

    send(hub, log, "--node", "gpu-07")
    count = len(hub.batches)
    send(hub, log, "--node", "gpu-07")

    assert count == 2  # 4,800 windows, 4,000 at most in a batch
    assert len(hub.batches) == count
    assert len(hub.requests) == 2 * count
    assert hub.contradictions == []


def test_gpus_without_uuid_are_named_by_node_file_and_place(tmp_path):
    log = write(
        tmp_path / "log.csv", [row(step, index=index) for step in range(3) for index in range(2)]
    )
    other = write(tmp_path / "other.csv", [row(step) for step in range(3)])

    def names(path, node):
        return [gpu.uuid for gpu in scan(path, Options(node)).gpus.values()]

    assert names(log, "a") == names(log, "a")
    assert len({*names(log, "a"), *names(log, "b"), *names(other, "a")}) == 5


def test_a_uuid_of_the_file_tells_gpus_apart_but_each_node_has_its_own(tmp_path):
    rows = [f"GPU-{name}, {stamp(second)}, 7" for second in range(3) for name in ("5f", "60")]
    log = write(tmp_path / "log.csv", rows, "uuid, timestamp, utilization.gpu [%]")

    of_a, of_b, again = (
        [gpu.uuid for gpu in scan(log, Options(node)).gpus.values()] for node in ("a", "b", "a")
    )

    assert len({*of_a, *of_b}) == 4
    assert of_a == again


def test_a_uuid_masked_with_zeros_names_no_gpu(tmp_path):
    masked = "GPU-00000000-0000-0000-0000-000000000000"
    rows = [f"{masked}, {index}, {stamp(second)}, 7" for second in range(3) for index in range(2)]
    log = write(tmp_path / "log.csv", rows, "uuid, index, timestamp, utilization.gpu [%]")

    of_a, of_b = (
        [gpu.uuid for gpu in scan(log, Options(node)).gpus.values()] for node in ("a", "b")
    )

    assert len({*of_a, *of_b, masked}) == 5


def test_rows_that_name_no_gpu_cycle_and_a_new_round_begins_where_the_time_steps(hub, tmp_path):
    header = "timestamp, utilization.gpu [%], name"
    # the third GPU missed one: 31 counts 15 s, then nothing
    rounds = [[10, 20, 30], [11, 21, 31], [12, 22], [13, 23, 33]]
    lines = [
        f"{stamp(10 * number + place * 0.004)}, {util} %, L4"
        for number, utils in enumerate(rounds)
        for place, util in enumerate(utils)
    ]
    log = write(tmp_path / "log.csv", lines, header)

    send(hub, log, "--node", "n", "--gpus", "3", "--model", "NVIDIA L40S")

    batch = hub.batches[0]["windows"]
    first = {
        gpu: mean
        for gpu, start, mean in zip(
            batch["gpu"], batch["start_ms"], batch["util_mean"], strict=True
        )
        if start == LOG_START_MS
    }
    assert first == pytest.approx({0: 0.10, 1: 0.20, 2: 0.30})
    third = [mean for gpu, mean in zip(batch["gpu"], batch["util_mean"], strict=True) if gpu == 2]
    assert third == pytest.approx([0.30, 0.31, 0.31, 0.33, 0.33], abs=0.001)
    assert {gpu["model"] for gpu in hub.batches[0]["gpus"]} == {"NVIDIA L40S"}


def test_more_rows_at_one_time_than_gpus_is_said(tmp_path):
    log = write(
        tmp_path / "log.csv",
        [f"{stamp(5 * step)}, 7" for step in range(5) for _ in range(2)],
        "timestamp, utilization.gpu",
    )

    with pytest.raises(LogError, match="say how many with --gpus"):
        scan(log, Options("n"))


def test_a_reading_counts_at_most_one_and_a_half_intervals(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(second) for second in (0, 2, 4, 6, 30, 32, 34, 36, 38)])

    send(hub, log)

    assert starts(hub) == [0, 30]
    assert columns(hub, "observed_ms") == [9_000, 10_000]


def test_a_long_interval_makes_long_windows(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(57.2 * step) for step in range(10)])

    send(hub, log)

    assert hub.batches[0]["window_s"] == 58
    assert sum(columns(hub, "observed_ms")) == 572_000


def test_an_interval_that_no_window_holds_is_said(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(400 * step) for step in range(10)])

    with pytest.raises(LogError, match="a reading each 400 s"):
        send(hub, log)


def test_a_declared_job_holds_all_gpus_for_the_whole_length(hub, tmp_path):
    log = write(
        tmp_path / "log.csv",
        [row(second, index=index) for second in range(3, 25) for index in range(2)],
    )

    send(
        hub,
        log,
        "--node",
        "n",
        "--job",
        "slurm/della/4711",
        "--user",
        "ann",
        "--account",
        "nlp",
        "--kind",
        "service",
    )

    batch = hub.batches[0]
    job = batch["jobs"][0]
    assert (job["key"], job["scheduler"], job["cluster"], job["id"]) == (
        "slurm/della/4711",
        "slurm",
        "della",
        "4711",
    )
    assert (job["user"], job["account"], job["kind"]) == ("ann", "nlp", "service")
    assert (job["start_ms"], job["end_ms"]) == (LOG_START_MS + 3_000, LOG_START_MS + 25_000)
    assert [(held["gpu"], held["start_ms"], held["end_ms"]) for held in batch["allocations"]] == [
        (0, LOG_START_MS, LOG_START_MS + 30_000),
        (1, LOG_START_MS, LOG_START_MS + 30_000),
    ]
    assert [(source["kind"], source["ok"]) for source in batch["sources"]] == [("declared", True)]


def test_a_log_replayed_with_a_job_is_not_a_duplicate_of_one_without(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(second) for second in range(10)])

    send(hub, log, "--node", "n")
    send(hub, log, "--node", "n", "--job", "j")

    assert [len(batch["jobs"]) for batch in hub.batches] == [0, 1]


def test_batches_stay_within_six_hours(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(10 * step) for step in range(2200)])  # 6 h 6 min 40 s

    send(hub, log)

    assert [len(batch["windows"]["gpu"]) for batch in hub.batches] == [2160, 40]
    assert [batch["sequence"] for batch in hub.batches] == [0, 1]
    assert all(wire.parse(batch) for batch in hub.batches)


def test_a_day_of_silence_costs_no_windows(hub, tmp_path):
    log = write(
        tmp_path / "log.csv",
        [*(row(second) for second in range(10)), *(row(86_400 + second) for second in range(10))],
    )

    send(hub, log)

    assert starts(hub) == [0, 10, 86_400]


def test_values_that_were_not_read_stay_so(hub, tmp_path):
    lines = [
        f"{stamp(second)}, 0, x, [N/A], ERR!, 81559 MiB, [Not Supported], 700.00 W"
        for second in range(10)
    ]
    log = write(tmp_path / "log.csv", lines)

    send(hub, log)

    assert columns(hub, "observed_ms") == [10_000]
    assert sorted(hub.batches[0]["windows"]) == ["gpu", "observed_ms", "start_ms"]
    assert hub.batches[0]["gpus"][0]["unread"]["util_mean"] == "not_supported"


def test_notices_repeated_headers_and_torn_lines_are_passed_over(hub, tmp_path):
    lines = [
        "",
        HEADER,
        row(0),
        "Unable to determine the device handle",
        row(1),
        HEADER,
        row(2),
        row(3)[:20],
    ]
    log = write(tmp_path / "log.csv", lines, "captured on gpu-07")

    send(hub, log)

    assert columns(hub, "observed_ms") == [3_000]


@pytest.mark.parametrize(
    "time",
    [
        "2026/13/20 14:00:01",
        "2026/02/30 14:00:01",
        "0000/01/01 00:00:00",
        "2026/11/20 25:00:01",
        "now",
    ],
)
def test_rows_whose_time_is_none_are_passed_over(hub, tmp_path, time):
    broken = row(1).replace(stamp(1), time)
    log = write(tmp_path / "log.csv", [row(0), broken, row(2)])

    send(hub, log)

    assert columns(hub, "observed_ms") == [4_000]


def test_rows_that_go_back_in_time_are_left_out_and_counted_aloud_but_not_repeated_ones(
    hub, tmp_path, caplog
):
    log = write(tmp_path / "log.csv", [row(second) for second in (0, 1, 2, 2, 0, 1, 3)])

    send(hub, log)

    assert columns(hub, "observed_ms") == [4_000]
    assert f"rows that go back in time left out file={log} rows=2" in caplog.text


def test_powershells_encoding_is_read(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("\n".join([HEADER, row(0), row(1)]), encoding="utf-16")

    assert scan(log, Options("n")).last_ms == LOG_START_MS + 2_000


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("+05:30", -5.5), ("-0800", 8), ("Europe/Berlin", -1), ("Asia/Kolkata", -5.5)],
)
def test_times_are_in_the_zone_that_is_told(tmp_path, name, hours):
    log = write(tmp_path / "log.csv", [row(0), row(1)])

    assert scan(log, Options("n", zone=name)).first_ms == LOG_START_MS + hours * 3_600_000


def test_the_hour_that_autumn_repeats_is_told_apart_by_going_back():
    stamps = Stamps(zone("Europe/Berlin"))

    times = [
        stamps.parse(f"2026/10/25 {text}.000")
        for text in ("02:59:59", "02:00:00", "02:59:59", "03:00:00")
    ]

    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [
        1_000,
        3_599_000,
        1_000,
    ]


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../../etc/passwd", "+24:00"])
def test_a_zone_that_is_none_is_said(name):
    with pytest.raises(LogError, match="--tz is"):
        zone(name or "x")


def test_a_log_is_moved_in_time(hub, tmp_path):
    log = write(tmp_path / "log.csv", [row(second) for second in range(10)])

    send(hub, log, "--start", "2026-11-20T14:00:00+01:00")

    assert columns(hub, "start_ms") == [moment_ms("2026-11-20T13:00:00Z")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hello\n", "neither a CSV"),
        ("utilization.gpu [%], index\n1 %, 0\n", "no timestamp column"),
        (HEADER + "\n", "holds no reading"),
        ('{"fleetwatch_recording": 2}\n', "newer agent"),
        ('{"fleetwatch_recording": 1}\n{"uuid": "a", "reading": {"speed": 1}}\n', "damaged"),
        ("", "neither a CSV"),
    ],
)
def test_a_file_that_is_no_log_is_said(tmp_path, text, complaint):
    (tmp_path / "log.csv").write_text(text)

    with pytest.raises(LogError, match=complaint):
        scan(tmp_path / "log.csv", Options("n"))


def record(path):
    recorder = FileRecorder(path, interval_ms=1000)
    recorder.gpus([GPUInfo("GPU-1", index=0, model="NVIDIA H100 80GB HBM3", power_limit_w=700.0)])
    for second in range(11):
        samples = [(second * 1_000_000 + 500_000, 1.0), (second * 1_000_000 + 1_000_000, 0.0)]
        recorder.reading(
            "GPU-1",
            Reading(
                LOG_START_MS + second * 1000,
                util=0.0,
                util_samples=samples,
                means={"sm_active": 0.25},
            ),
        )
    recorder.processes(LOG_START_MS + 10_000, {"GPU-1": [ProcessReading(4711)]})
    recorder.close()
    return path


def test_the_agents_own_recording_keeps_samples_averages_and_processes(hub, tmp_path):
    send(hub, record(tmp_path / "rec.jsonl"), "--node", "n")

    window = {name: values[0] for name, values in hub.batches[0]["windows"].items()}
    assert len(hub.batches[0]["gpus"]) == 1
    assert (
        window["observed_ms"],
        window["util_mean"],
        window["util_dips"],
        window["sm_active"],
    ) == (10_000, 0.5, 10, 0.25)
    assert window["process_count"] == 1


def test_a_recording_that_was_cut_off_is_read_to_its_last_whole_line(tmp_path):
    path = record(tmp_path / "rec.jsonl")
    path.write_text(path.read_text()[:-10])

    assert scan(path, Options("n")).last_ms == LOG_START_MS + 11_000


def test_a_recording_goes_on_when_the_agent_starts_anew(tmp_path):
    path = record(tmp_path / "rec.jsonl")
    again = FileRecorder(path, interval_ms=1000)
    again.reading("GPU-1", Reading(LOG_START_MS + 20_000, util=1.0))
    again.close()

    found = scan(path, Options("n"))

    assert (found.first_ms, found.last_ms) == (LOG_START_MS, LOG_START_MS + 21_000)


def test_a_recorded_log_is_played_as_a_source(tmp_path):
    source = ReplaySource(record(tmp_path / "rec.jsonl"), node="n", start_ms=5_000)
    uuid = source.gpus()[0].uuid

    assert source.read(uuid, 4_999) is None
    assert source.read(uuid, 5_000).at_ms == 5_000
    assert source.read(uuid, 6_500).at_ms == 6_000
    assert source.processes(uuid) is None
    assert len([source.read(uuid, 99_000) for _ in range(9)]) == 9
    assert len(source.processes(uuid)) == 1


def test_a_refused_token_ends_the_replay_at_once_and_is_told_once(hub, tmp_path, capsys, caplog):
    hub.answers = [(403, {}, {"error": "token of another node"})]
    log = write(tmp_path / "log.csv", [row(0), row(1)])

    status = main(["replay", str(log), "--server", hub.url, "--token", "t"])

    assert status == 1
    assert capsys.readouterr().err.count("token of another node") == 1
    assert caplog.messages == []


def test_a_hub_that_comes_back_gets_everything(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.answers = [(503, {}, {"error": "starting"})] * 3
    log = write(tmp_path / "log.csv", [row(second) for second in range(10)])

    send(hub, log)

    assert starts(hub) == [0]


def test_the_command_says_what_arrived(hub, tmp_path, capsys):
    log = write(tmp_path / "log.csv", [row(second) for second in range(20)])

    assert main(["replay", str(log), "--server", hub.url, "--token", "t", "--node", "n"]) == 0
    assert (
        capsys.readouterr().out
        == f"{log}: 2 windows of 1 GPUs, 2026-11-03 09:00 to 2026-11-03 09:00 UTC, in 1 batches,"
        " all at the hub\n"
    )


def test_windows_that_the_hub_does_not_count_are_no_success(hub, tmp_path, capsys):
    hub.answers = [
        (
            200,
            {},
            {
                "stored": 0,
                "duplicate": 0,
                "refused": [{"gpu": "GPU-1", "why": "it needs a token that may import"}],
            },
        )
    ]
    log = write(tmp_path / "log.csv", [row(second) for second in range(20)])

    assert main(["replay", str(log), "--server", hub.url, "--token", "t", "--node", "n"]) == 1
    assert "it needs a token that may import" in capsys.readouterr().err


def test_every_batch_of_a_replay_is_acceptable_to_the_wire(hub, tmp_path):
    log = write(
        tmp_path / "log.csv",
        [row(second, util=second % 101, watts=70 + second % 600) for second in range(500)],
    )

    send(hub, log, "--job", "j")

    for batch in hub.batches:
        assert wire.decode(json.dumps(batch).encode()).windows["util_mean"]
