import io
import json
from contextlib import redirect_stderr
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from agent import wire
from agent.dispatch import main
from agent.workloads.slurm.sacct import HistoryError, Reader
from tests.agent.fake_slurm import NOT_SET, number

NINE = 1_793_696_400  # 2026-11-03T09:00:00Z
HEADER = "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|State|ExitCode|Submit|Start|End|Elapsed|NNodes|TimelimitRaw|ReqTRES|AllocTRES"
ROW = (
    "4711|4711|train|ann|nlp|gpu|normal|COMPLETED|0:0|2026-11-03T08:00:00|2026-11-03T09:00:00|2026-11-03T10:00:00|01:00:00|1|1500"
    "|billing=16,cpu=16,gres/gpu=2,mem=64G,node=1|billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1"
)
READER = Reader("della", UTC)


def row(**values):
    """ROW with other values, by column."""
    named = dict(zip(HEADER.split("|"), ROW.split("|"), strict=True))
    return "|".join({**named, **values}.values())


def table(*rows, header=HEADER):
    return "\n".join([header, *rows]) + "\n"


def json_job(**changes):
    """A job in the shape of `sacct --json` of 24.05."""
    job = {
        "account": "nlp",
        "allocation_nodes": 1,
        "array": {"job_id": 0, "task_id": NOT_SET},
        "association": {"account": "nlp", "cluster": "della", "user": "ann"},
        "cluster": "della",
        "exit_code": {
            "status": ["SUCCESS"],
            "return_code": number(0),
            "signal": {"id": NOT_SET, "name": ""},
        },
        "het": {"job_id": 0, "job_offset": NOT_SET},
        "job_id": 4711,
        "name": "train",
        "partition": "gpu",
        "qos": "normal",
        "restart_cnt": 0,
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "steps": [{"step": {"id": "4711.batch"}, "tres": {}}],
        "submit_line": "sbatch --export=TOKEN=hunter2 train.sh",
        "time": {
            "elapsed": 3600,
            "end": NINE + 3600,
            "start": NINE,
            "submission": NINE - 3600,
            "limit": number(1500),
        },
        "tres": {
            "requested": [
                {"type": "cpu", "name": "", "id": 1, "count": 16},
                {"type": "mem", "name": "", "id": 2, "count": 65536},
                {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
            ],
            "allocated": [
                {"type": "gres", "name": "gpu", "id": 1001, "count": 4},
                {"type": "gres", "name": "gpu:a100", "id": 2, "count": 4},
            ],
        },
        "user": "ann",
    }
    return {**job, **changes}


def answer(*jobs):
    return json.dumps({"jobs": list(jobs), "errors": [], "warnings": []})


def old_json_job():
    """The same job as 21.08 wrote it: one text for the state, bare numbers, null for what is not
    set.
    """
    return json_job(
        array={"job_id": 0, "task_id": None},
        het={"job_id": 0, "job_offset": None},
        state={"current": "COMPLETED", "reason": "None"},
        exit_code={"status": "SUCCESS", "return_code": 0},
        restart_cnt=0,
        time={
            "elapsed": 3600,
            "end": NINE + 3600,
            "start": NINE,
            "submission": NINE - 3600,
            "limit": 1500,
        },
    )


def test_each_form_tells_the_same_job():
    (job,) = READER.jobs(table(ROW))

    assert (job.key, job.name, job.user, job.account, job.state) == (
        "slurm/della/4711",
        "train",
        "ann",
        "nlp",
        "COMPLETED",
    )
    assert (job.submit_ms, job.start_ms, job.end_ms) == (
        (NINE - 3600) * 1000,
        NINE * 1000,
        (NINE + 3600) * 1000,
    )
    assert dict(job.labels) == {
        "partition": "gpu",
        "qos": "normal",
        "nodes": "1",
        "requested_gpus": "2",
        "requested_cpus": "16",
        "requested_memory": "64G",
        "time_limit_minutes": "1500",
        "allocated_gpus": "4",
    }
    assert READER.jobs(answer(json_job())) == READER.jobs(answer(old_json_job())) == [job]


def test_columns_may_stand_in_any_order_and_be_few():
    content = "State|End|JobID\nFAILED|2026-11-03T10:00:00|12\n"

    (job,) = READER.jobs(content)

    assert (job.key, job.state, job.start_ms, job.end_ms) == (
        "slurm/della/12",
        "FAILED",
        None,
        (NINE + 3600) * 1000,
    )


def test_sacct_p_with_its_last_delimiter_is_read_too():
    (job,) = READER.jobs("JobID|State|JobName|\n12|FAILED|x|\n")

    assert (job.id, job.name) == ("12", "x")


def test_steps_and_waiting_tasks_are_no_jobs():
    others = [
        row(JobID=name, JobIDRaw=name)
        for name in ("4711.batch", "4711.extern", "4711.0", "500_7.0", "21+1.batch")
    ]
    waiting = row(JobID="600_[1-9]", JobIDRaw="600", State="PENDING")

    assert [job.id for job in READER.jobs(table(ROW, *others, waiting))] == ["4711"]


def test_tasks_and_parts_have_the_ids_that_nodes_know_them_by():
    jobs = READER.jobs(table(row(JobID="500_7", JobIDRaw="503"), row(JobID="21+1", JobIDRaw="22")))

    assert [job.id for job in jobs] == ["503", "22"]
    assert (
        jobs[0].labels["array_job"],
        jobs[0].labels["array_task"],
        jobs[1].labels["het_job"],
    ) == ("500", "7", "21+1")


def test_json_names_tasks_and_parts_alike():
    array = json_job(job_id=503, array={"job_id": 500, "task_id": number(7)})
    het = json_job(job_id=22, het={"job_id": 21, "job_offset": number(1)})

    jobs = READER.jobs(answer(array, het))

    assert [job.id for job in jobs] == ["503", "22"]
    assert (jobs[0].labels["array_task"], jobs[1].labels["het_job"]) == ("7", "21+1")


@pytest.mark.parametrize(
    ("values", "state", "end"),
    [
        ({"State": "CANCELLED by 1000"}, "CANCELLED", NINE + 3600),
        ({"State": "TIMEOUT"}, "TIMEOUT", NINE + 3600),
        ({"State": "RUNNING", "End": "Unknown"}, "RUNNING", None),
        ({"State": "RUNNING", "End": "2026-11-03T10:00:00"}, "RUNNING", None),
        ({"State": "FAILED", "End": "Unknown", "Elapsed": "1-00:00:01"}, "FAILED", NINE + 86_401),
        ({"State": "CANCELLED", "Start": "None"}, "CANCELLED", NINE + 3600),
        ({"State": "CANCELLED", "Start": "Unknown", "End": "Unknown"}, "CANCELLED", None),
    ],
)
def test_a_job_has_an_end_only_when_it_ended(values, state, end):
    (job,) = READER.jobs(table(row(**values)))

    assert (job.state, job.end_ms) == (state, None if end is None else end * 1000)


def test_exit_codes_are_kept_when_they_say_something():
    (failed,) = READER.jobs(table(row(State="FAILED", ExitCode="1:0")))
    exit_code = {"return_code": number(1), "signal": {"id": number(9)}}
    (killed,) = READER.jobs(answer(json_job(exit_code=exit_code)))

    assert (failed.labels["exit_code"], killed.labels["exit_code"]) == ("1:0", "1:9")


def test_of_a_requeued_job_the_last_run_counts():
    first = row(State="NODE_FAIL", End="2026-11-03T09:10:00")

    (job,) = READER.jobs(table(first, row(State="PREEMPTED"), ROW))

    assert (job.state, job.restarts) == ("COMPLETED", 2)


def test_restarts_that_accounting_counts_are_taken():
    (job,) = READER.jobs(answer(json_job(restart_cnt=3)))

    assert job.restarts == 3


def test_a_name_may_hold_the_delimiter():
    (job,) = READER.jobs(table(row(JobName="a|b|c")))

    assert (job.name, job.user, job.state) == ("a|b|c", "ann", "COMPLETED")


def test_times_are_in_the_zone_in_which_they_were_printed():
    (job,) = Reader("c", ZoneInfo("America/New_York")).jobs(table(ROW))

    assert job.start_ms == (NINE + 5 * 3600) * 1000


def test_a_job_over_the_hour_that_autumn_repeats_does_not_end_before_it_began():
    # 2026-10-25: 02:00 to 03:00 comes twice; from 02:50 (summer) to 02:10 (winter) are 20 minutes
    (job,) = Reader("c", ZoneInfo("Europe/Berlin")).jobs(
        table(row(Start="2026-10-25T02:50:00", End="2026-10-25T02:10:00"))
    )

    assert job.end_ms - job.start_ms == 20 * 60_000


def test_epoch_seconds_are_times_too():
    (job,) = READER.jobs(table(row(Start=str(NINE))))
    (of_json,) = READER.jobs(answer(json_job(time={"start": str(NINE)})))

    assert job.start_ms == of_json.start_ms == NINE * 1000


def test_the_cluster_of_the_file_wins():
    content = "Cluster|JobID|State\ntiger|1|FAILED\n|2|FAILED\n"

    assert [job.key for job in READER.jobs(content)] == ["slurm/tiger/1", "slurm/della/2"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("hello\n", "line 1: expected JSON, or a header"),
        ("4711|train|COMPLETED\n", "line 1: expected JSON, or a header"),
        (table(ROW, "1|2|3"), "line 3 has 3 values for 17 columns"),
        (table(row(JobID="500_7", JobIDRaw="")), "line 2: job 500_7 is part of an array"),
        (table(row(JobID="x", JobIDRaw="x")), "line 2: 'x' is no job id"),
        (table(ROW, "", row(Start="yesterday")), "line 4: start is 'yesterday'"),
        (table(row(Start="2026-13-03T09:00:00")), "line 2: start is '2026-13-03T09:00:00'"),
        (table(row(Start="1969-12-31T23:59:59")), "line 2: start is '1969"),
        (table(row(End="9" * 18)), "line 2: end is '9999"),
        ("JobIDRaw|State\n|FAILED\n", "line 2: '' is no job id"),
        ("JobID|State\n|FAILED\n", "line 2: '' is no job id"),
        ('{"jobs": [\n  {"job_id": 1,\n', "line 3: no JSON"),
        ('{"nodes": []}', "without a list of jobs"),
        ('{"jobs": [{"job_id": 1}, {"name": "x"}]}', "job 2 of the list has no job_id"),
        ('{"jobs": [7]}', "job 1 of the list has no job_id"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_accounting_is_refused_with_its_place(content, complaint):
    with pytest.raises(HistoryError, match=complaint.replace("[", r"\[")):
        READER.jobs(content)


def test_nothing_of_submit_lines_is_kept():
    assert "hunter2" not in repr(READER.jobs(answer(json_job())))


@pytest.fixture(autouse=True)
def own_spool(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETWATCH_SPOOL", str(tmp_path / "spool"))


def import_history(hub, tmp_path, *arguments):
    flags = ["--server", hub.url, "--token", "secret", "--node", "gpu-07"]
    return main(["history", *arguments, *flags])


def test_the_import_sends_jobs_without_windows_and_says_how_many(hub, tmp_path, capsys):
    path = tmp_path / "sacct.txt"
    path.write_text(table(ROW, row(JobID="4712", JobIDRaw="4712", State="FAILED")))

    status = import_history(hub, tmp_path, str(path), "--cluster", "della")

    (sent,) = [wire.parse(batch) for batch in hub.batches]
    assert (status, capsys.readouterr().out) == (0, f"{path}: 2 jobs, all at the hub\n")
    assert (sent.gpus, sent.windows, sent.boot_start_ms, sent.sources) == (
        [],
        {"gpu": [], "start_ms": [], "observed_ms": []},
        0,
        [],
    )
    assert [(job["key"], job["state"]) for job in sent.jobs] == [
        ("slurm/della/4711", "COMPLETED"),
        ("slurm/della/4712", "FAILED"),
    ]


def test_importing_twice_sends_the_same_batches(hub, tmp_path):
    path = tmp_path / "sacct.json"
    path.write_text(answer(*(json_job(job_id=number) for number in range(1, 2502))))
    import_history(hub, tmp_path, str(path))
    import_history(hub, tmp_path, str(path))

    assert [len(batch["jobs"]) for batch in hub.batches] == [2000, 501]
    assert (len(hub.requests), hub.contradictions) == (4, [])


def test_a_pipe_is_read(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table(ROW).encode())))

    assert import_history(hub, tmp_path, "-") == 0
    assert hub.batches[0]["jobs"][0]["key"] == "slurm/default/4711"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "is empty"), ("x\n", "line 1: expected JSON"), (None, "can't be read")],
)
def test_a_bad_file_is_one_clear_line(hub, tmp_path, capsys, content, complaint):
    path = tmp_path / "sacct.txt"
    if content is not None:
        path.write_text(content)

    status = import_history(hub, tmp_path, str(path))

    error = capsys.readouterr().err
    assert status == 1
    assert error.startswith(f"fleetwatch-agent: {path}")
    assert complaint in error
    assert error.count("\n") == 1
    assert hub.batches == []


def test_a_zone_that_does_not_exist_is_a_bad_argument(hub, tmp_path, capsys):
    (tmp_path / "sacct.txt").write_text(table(ROW))

    assert import_history(hub, tmp_path, str(tmp_path / "sacct.txt"), "--tz", "Mars/Olympus") == 2
    assert "--tz" in capsys.readouterr().err


REFUSALS = [
    ((422, {}, {"error": "no such thing", "field": "jobs"}), "no such thing"),
    ((403, {}, {"error": "this token may not import accounting"}), "may not import accounting"),
    ((401, {}, {"error": "unknown, revoked or expired token"}), "create_agent_token --import NODE"),
]


@pytest.mark.parametrize(("answer", "why"), REFUSALS)
def test_a_refused_import_is_told_once_and_enrols_no_node(hub, tmp_path, caplog, answer, why):
    hub.answers = [answer]
    (tmp_path / "sacct.txt").write_text(table(ROW))

    with redirect_stderr(io.StringIO()) as error:
        status = import_history(hub, tmp_path, str(tmp_path / "sacct.txt"))

    assert status == 1
    assert why in error.getvalue()
    assert (error.getvalue().count("\n"), caplog.messages) == (1, [])
    assert [path for path, _, _ in hub.requests] == ["/api/v1/batches"]
    assert not (tmp_path / "spool").exists()
