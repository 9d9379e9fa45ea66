import json
import os
from pathlib import Path

import pytest

from agent.workloads.slurm.scontrol import (
    from_json,
    from_text,
    is_over,
    node_from_text,
    whole,
    words,
)
from tests.agent.fake_slurm import job_2108, job_2405, job_line, node_line, number

NINE_MS = 1_793_696_400_000  # 2026-11-03T09:00:00Z


@pytest.mark.parametrize("job", [job_2108, job_2405])
def test_every_data_parser_tells_the_same_job(job):
    record = from_json(job(), ["n01"])

    assert (record.id, record.name, record.user, record.account, record.state) == (
        4711,
        "train",
        "ann",
        "nlp",
        "RUNNING",
    )
    assert (record.submit_ms, record.start_ms, record.end_ms) == (
        NINE_MS - 3_600_000,
        NINE_MS,
        None,
    )
    assert (record.is_batch, record.is_exclusive, record.restarts, record.is_holding) == (
        True,
        False,
        0,
        True,
    )
    assert record.gres == "gpu:a100:2(IDX:0-1)"
    assert record.labels == {
        "partition": "gpu",
        "qos": "normal",
        "nodes": "1",
        "requested_gpus": "2",
        "requested_cpus": "16",
        "requested_memory": "64G",
        "time_limit_minutes": "1500",
    }


def test_the_text_of_scontrol_tells_the_same_job_as_its_json():
    assert from_text(job_line(), name="train", nodes=["n01"]) == from_json(job_2405(), ["n01"])


def test_nothing_of_commands_comments_and_paths_is_kept():
    for record in (
        from_json(job_2405(), ["n01"]),
        from_text(job_line(), name="train", nodes=["n01"]),
    ):
        assert "hunter2" not in repr(record)
        assert "/home" not in repr(record)


def test_a_name_that_looks_like_fields_changes_none():
    name = (
        "x UserId=root(0) GroupId=root(0) JobState=COMPLETED Nodes=n01 CPU_IDs=0 Mem=0"
        " GRES=gpu:8(IDX:0-7) Command=y"
    )

    record = from_text(job_line(name=name), name=name, nodes=["n01"])

    assert (record.user, record.state, record.gres, record.name) == (
        "ann",
        "RUNNING",
        "gpu:a100:2(IDX:0-1)",
        name,
    )


@pytest.mark.parametrize(
    "line", ["", "JobId=4711", "JobId=4711 JobName=other UserId=ann(1000)", "slurm_load_jobs error"]
)
def test_a_line_that_is_not_the_asked_job_is_an_error(line):
    with pytest.raises(ValueError, match="does not begin"):
        from_text(line, name="train", nodes=["n01"])


def test_of_several_nodes_this_ones_resources_count():
    details = ["gpu:a100:2(IDX:0-1)", "gpu:a100:2(IDX:2-3)", "gpu:a100:1(IDX:0)"]
    allocation = [{"name": name} for name in ("n01", "n02", "n07")]
    job = job_2405(
        nodes="n[01-02,07]",
        gres_detail=details,
        job_resources={"nodes": {"allocation": allocation}},
    )

    assert [from_json(job, [name]).gres for name in ("n01", "n02", "n07", "n03")] == [
        *details,
        None,
    ]


def test_without_a_list_of_nodes_the_hostlist_gives_their_order():
    job = job_2405(
        nodes="n[01-02,07]",
        gres_detail=["gpu:1(IDX:0)", "gpu:1(IDX:1)", "gpu:1(IDX:2)"],
        job_resources=None,
    )

    assert from_json(job, ["n07"]).gres == "gpu:1(IDX:2)"


def test_nodes_with_equal_resources_share_a_group_of_text():
    groups = (
        " Nodes=n[01-02] CPU_IDs=0-15 Mem=0 GRES=gpu:2(IDX:0-1)  Nodes=n07 CPU_IDs=0-7 Mem=0"
        " GRES=gpu:1(IDX:3)"
    )
    line = job_line(groups=groups, NumNodes=3)

    found = [
        from_text(line, name="train", nodes=[name]).gres for name in ("n01", "n02", "n07", "n03")
    ]

    assert found == ["gpu:2(IDX:0-1)", "gpu:2(IDX:0-1)", "gpu:1(IDX:3)", None]


def test_a_job_without_gpus_holds_the_node_but_no_resource():
    job = job_2405(gres_detail=[])

    assert from_json(job, ["n01"]).gres == ""
    assert (
        from_text(
            job_line(groups=" Nodes=n01 CPU_IDs=0 Mem=0 GRES="), name="train", nodes=["n01"]
        ).gres
        == ""
    )


@pytest.mark.parametrize(
    ("states", "expected", "holds"),
    [
        (["RUNNING"], "RUNNING", True),
        (["SUSPENDED"], "SUSPENDED", True),
        (["COMPLETED", "COMPLETING"], "COMPLETING", True),
        (["RUNNING", "CONFIGURING"], "RUNNING", True),
        (["PENDING"], "PENDING", False),
        (["COMPLETED"], "COMPLETED", False),
        (["FAILED", "LAUNCH_FAILED"], "FAILED", False),
        ("CANCELLED by 1000", "CANCELLED", False),
        ("NODE_FAIL", "NODE_FAIL", False),
        (["PENDING", "REQUEUED"], "PENDING", False),
        ([], "", False),
    ],
)
def test_only_jobs_that_run_or_are_being_ended_hold_their_gpus(states, expected, holds):
    record = from_json(job_2405(job_state=states), ["n01"])

    assert (record.state, record.is_holding) == (expected, holds)


def test_the_end_of_a_running_job_is_only_its_limit():
    assert from_json(job_2405(), ["n01"]).end_ms is None
    assert from_json(job_2405(job_state=["TIMEOUT"]), ["n01"]).end_ms == 1_793_786_400_000
    assert (
        from_text(job_line(state="COMPLETED"), name="train", nodes=["n01"]).end_ms
        == 1_793_786_400_000
    )


def test_arrays_parts_and_restarts_are_told():
    array = from_json(
        job_2405(array_job_id=number(500), array_task_id=number(0), restart_cnt=2), ["n01"]
    )
    het = from_json(job_2405(het_job_id=number(21), het_job_offset=number(1)), ["n01"])
    line = job_line(head="ArrayJobId=500 ArrayTaskId=0 ", Restarts=2)

    assert (array.labels["array_job"], array.labels["array_task"], array.restarts) == (
        "500",
        "0",
        2,
    )
    assert het.labels["het_job"] == "21+1"
    assert from_text(line, name="train", nodes=["n01"]) == array


def test_a_job_started_by_hand_is_interactive():
    assert not from_json(job_2405(batch_flag=False), ["n01"]).is_batch
    assert not from_text(job_line(BatchFlag=0), name="train", nodes=["n01"]).is_batch


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"exclusive": ["true"]}, True),
        ({"exclusive": ["user"]}, False),
        ({"exclusive": []}, False),
        ({"exclusive": None, "shared": ["none"]}, True),
        ({"exclusive": None, "shared": "none"}, True),
        ({"exclusive": None, "shared": None}, False),
        ({"exclusive": None, "shared": ["oversubscribe"]}, False),
    ],
)
def test_a_job_that_shares_with_nobody_says_so_in_each_version(fields, expected):
    assert from_json(job_2405(**fields), ["n01"]).is_exclusive is expected


def test_oversubscribe_no_is_exclusive():
    assert from_text(job_line(OverSubscribe="NO"), name="train", nodes=["n01"]).is_exclusive


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (0, 0),
        (number(7), 7),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        (0xFFFFFFFD, 0xFFFFFFFD),
        (0xFFFFFFFE, None),
        (0xFFFFFFFF, None),
        ("12", 12),
        ("INFINITE", None),
        (None, None),
        (True, None),
        (float("nan"), None),
        (-1, None),
    ],
)
def test_a_number_that_is_not_set_is_not_read(value, expected):
    assert whole(value) == expected


def test_states_may_be_a_list_or_a_text():
    assert words(["IDLE", "DRAIN"]) == words("IDLE+DRAIN") == ["IDLE", "DRAIN"]
    assert is_over(words("CANCELLED by 1000"))


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("MIXED", "", ""),
        ("IDLE+DRAIN", "GPU 3: ECC errors", "drain: GPU 3: ECC errors"),
        ("MIXED+DRAIN", "", "drain"),
        ("DOWN*+DRAIN", "Not responding", "down: Not responding"),
        ("IDLE+MAINTENANCE", "", "maintenance"),
        ("MAINT", "", "maint"),
        ("IDLE*", "", ""),
        ("IDLE+POWERED_DOWN", "", ""),
        ("ALLOCATED+PLANNED", "", ""),
    ],
)
def test_a_node_is_out_of_service_only_while_slurm_says_so(state, reason, expected):
    assert node_from_text(node_line(state=state, reason=reason)).drained == expected


def test_a_node_tells_how_many_gpus_and_shards_it_has():
    node = node_from_text(node_line(gres="gpu:a100:2(S:0),gpu:v100:2(S:1),shard:a100:32(S:0-1)"))

    assert (node.gpus, dict(node.parts)) == (4, {"shard": 32})
    assert node.part("shard", 4) == 0.125
    assert node.part("shard", 3) is None
    assert node_from_text(node_line(gres="(null)")).gpus is None


@pytest.mark.skipif(
    "FLEETWATCH_EXTERNAL_DATA" not in os.environ,
    reason="FLEETWATCH_EXTERNAL_DATA names no folder of recordings",
)
def test_recorded_answers_of_slurmrestd_are_read():
    path = Path(os.environ["FLEETWATCH_EXTERNAL_DATA"]) / "slurm" / "slurmrestd" / "jobs.json"
    jobs = json.loads(path.read_text())["jobs"]

    records = [from_json(job, [job["nodes"]]) for job in jobs]

    assert sorted(record.state for record in records) == ["COMPLETED", "RUNNING", "RUNNING"]
    assert [record.is_holding for record in records] == [
        record.state == "RUNNING" for record in records
    ]
    assert [record.end_ms is None for record in records] == [
        record.state == "RUNNING" for record in records
    ]
    assert all(record.gres == "" and record.start_ms and record.user for record in records)
