import pytest

from agent.readings import Allocation, GPUInfo, SchedulerError
from agent.workloads.slurm.job_books import LIST_MS
from agent.workloads.slurm.job_runs import TOLD_MS, WATCHED_MS
from tests.agent.fake_slurm import (
    GPUS,
    IDLE,
    NINE_MS,
    NOW,
    held,
    job_2108,
    job_2405,
    job_line,
    number,
    write_claim,
)


def test_a_running_job_holds_its_gpus_without_a_process(fake, books):
    fake.job(job_2405())

    holdings = books().poll(GPUS, NOW)

    assert list(holdings.allocations) == [
        Allocation("GPU-0", "slurm/della/4711", "slurm", NINE_MS, None, 1.0),
        Allocation("GPU-1", "slurm/della/4711", "slurm", NINE_MS, None, 1.0),
    ]
    job = holdings.jobs[0]
    assert (job.key, job.name, job.user, job.account, job.kind, job.state) == (
        "slurm/della/4711",
        "train",
        "ann",
        "nlp",
        "batch",
        "RUNNING",
    )
    assert (job.cluster, job.id, job.start_ms, job.end_ms) == ("della", "4711", NINE_MS, None)
    assert holdings.aliases == {"4711": "slurm/della/4711"}


def test_an_old_slurm_is_read_by_its_text(fake, books):
    name = "x UserId=root(0) GroupId=root(0) JobState=FAILED"
    fake.text_job(4711, job_line(name=name), name=name)

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0}
    assert (holdings.jobs[0].name, holdings.jobs[0].user, holdings.jobs[0].state) == (
        name,
        "ann",
        "RUNNING",
    )


def test_the_language_is_tried_once(fake, books):
    fake.text_job(4711, job_line(), name="train")
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.calls()
    fake.text_job(4712, job_line(4712), name="train")

    slurm.poll(GPUS, NOW + LIST_MS)

    assert not any("--json" in call for call in fake.calls())


def test_json_of_22_05_is_read_too(fake, books):
    fake.job(job_2108())

    assert held(books().poll(GPUS, NOW)) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0}


def test_files_of_gres_conf_turn_the_index_into_the_minor_number(fake, books, tmp_path):
    fake.job(job_2405(gres_detail=["gpu:a100:1(IDX:0)"]))
    slurm = books()
    on_bus = held(slurm.poll(GPUS, NOW))
    (tmp_path / "etc" / "gres.conf").write_text(
        "NodeName=n[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-3]\n"
    )

    by_file = held(slurm.poll(GPUS, NOW + 1))

    assert on_bus == {("GPU-0", "4711"): 1.0}
    assert by_file == {("GPU-3", "4711"): 1.0}


def test_jobs_that_share_a_gpu_have_their_share_of_it(fake, books):
    fake.node(gres="gpu:a100:4,shard:a100:32", used="shard:a100:6(2/8,4/8,0/8,0/8)")
    fake.job(job_2405(job_id=1, gres_detail=["shard:a100:2(2/8,0/8,0/8,0/8)"]))
    fake.job(job_2405(job_id=2, gres_detail=["shard:a100:4(0/8,4/8,0/8,0/8)"]))
    fake.job(job_2405(job_id=3, gres_detail=["shard:a100:3(IDX:1)"]))  # before 23.11
    # which has how many of the nine is not said
    fake.job(job_2405(job_id=4, gres_detail=["shard:a100:9(IDX:2-3)"]))

    shares = held(books().poll(GPUS, NOW))

    assert shares == {
        ("GPU-0", "1"): 0.25,
        ("GPU-1", "2"): 0.5,
        ("GPU-1", "3"): 0.375,
        ("GPU-2", "4"): None,
        ("GPU-3", "4"): None,
    }


def test_a_job_may_have_several_resources(fake, books):
    fake.job(job_2405(gres_detail=["gpu:a100:1(IDX:0),gpu:v100:1(IDX:3),craynetwork:1"]))

    assert held(books().poll(GPUS, NOW)) == {("GPU-0", "4711"): 1.0, ("GPU-3", "4711"): 1.0}


def test_mig_instances_are_counted_as_slurm_counts_them(fake, books):
    fake.node(gres="gpu:1g.10gb:2,gpu:a100:3")
    fake.job(job_2405(gres_detail=["gpu:1g.10gb:1(IDX:1)"]))
    instances = [GPUInfo("MIG-a", parent_uuid="GPU-0"), GPUInfo("MIG-b", parent_uuid="GPU-0")]

    assert held(books().poll([*GPUS, *instances], NOW)) == {("MIG-b", "4711"): 1.0}


def test_an_exclusive_job_holds_all_gpus_whether_it_asked_for_them_or_not(fake, books):
    fake.job(job_2405(exclusive=["true"], gres_detail=[]))

    assert held(books().poll(GPUS, NOW)) == {(f"GPU-{place}", "4711"): 1.0 for place in range(4)}


def test_a_job_without_gpus_holds_none(fake, books):
    fake.node(used=IDLE)
    fake.job(job_2405(gres_detail=[]))

    holdings = books().poll(GPUS, NOW)

    assert (list(holdings.jobs), list(holdings.allocations)) == ([], [])


def test_a_job_that_ends_is_told_with_what_it_held_and_until_when_for_a_minute(fake, books):
    slurm = books()
    fake.job(job_2405())
    slurm.poll(GPUS, NOW)
    fake.job(
        job_2405(job_state=["FAILED", "COMPLETING"], end_time=number(1793699000)),
        state="COMPLETING",
    )
    ending = slurm.poll(GPUS, NOW + LIST_MS)
    fake.job(job_2405(job_state=["FAILED"], end_time=number(1793699000)), state="FAILED")
    fake.node(used=IDLE)
    ended = slurm.poll(GPUS, NOW + LIST_MS + 1)
    last = slurm.poll(GPUS, NOW + LIST_MS + TOLD_MS)
    after = slurm.poll(GPUS, NOW + LIST_MS + 1 + TOLD_MS)

    whole_life = [
        Allocation(f"GPU-{place}", "slurm/della/4711", "slurm", NINE_MS, 1_793_699_000_000, 1.0)
        for place in (0, 1)
    ]
    assert (
        list(ending.allocations) == list(ended.allocations) == list(last.allocations) == whole_life
    )
    assert (ended.jobs[0].state, ended.jobs[0].end_ms) == ("FAILED", 1_793_699_000_000)
    assert (list(after.jobs), list(after.allocations)) == ([], [])


def test_what_ended_before_the_agent_looked_is_left_alone(fake, books):
    fake.node(used=IDLE)
    fake.job(job_2405(job_state=["COMPLETED"]), state="COMPLETED")

    assert list(books().poll(GPUS, NOW).jobs) == []


def test_a_requeued_job_is_asked_for_again(fake, books):
    slurm = books()
    fake.job(job_2405())
    slurm.poll(GPUS, NOW)
    fake.job(
        job_2405(restart_cnt=1, start_time=number(1793698000), gres_detail=["gpu:a100:2(IDX:2-3)"]),
        start="2026-11-03T09:26:40",
    )

    holdings = slurm.poll(GPUS, NOW + LIST_MS)

    assert (holdings.jobs[0].restarts, holdings.jobs[0].start_ms) == (1, 1_793_698_000_000)
    assert set(held(holdings)) == {("GPU-2", "4711"), ("GPU-3", "4711")}


def test_a_requeued_jobs_first_run_does_not_end_with_its_second(fake, books):
    fake.node(used="gpu:a100:2(IDX:0-1)")
    fake.job(job_2405())
    slurm = books()
    slurm.poll(GPUS, NOW)
    again = {"restart_cnt": 1, "start_time": number(1793698000)}
    here = ["gpu:a100:2(IDX:2-3)"]
    fake.job(job_2405(**again, gres_detail=here), start="2026-11-03T09:26:40")
    fake.node(used="gpu:a100:2(IDX:2-3)")
    slurm.poll(GPUS, NOW + 5000)
    over = job_2405(**again, job_state=["COMPLETED"], gres_detail=[], end_time=number(1793699000))
    fake.job(over, state="COMPLETED", start="2026-11-03T09:26:40")
    fake.node(used=IDLE)

    holdings = slurm.poll(GPUS, NOW + 20_000)

    ends = {(item.uuid, item.end_ms) for item in holdings.allocations}
    assert {("GPU-0", NOW + 5000), ("GPU-1", NOW + 5000)} < ends
    assert ends - {("GPU-0", NOW + 5000), ("GPU-1", NOW + 5000)} == {
        ("GPU-2", 1_793_699_000_000),
        ("GPU-3", 1_793_699_000_000),
    }


@pytest.mark.parametrize(
    ("devices", "end_s"),
    [("gpu:a100:2(IDX:1-2)", -3), ("gpu:a100:2(IDX:2-3)", 5), ("shard:a100:2(IDX:0-1)", 5)],
    ids=["one of its GPUs", "other GPUs", "parts of its GPUs"],
)
def test_a_requeued_jobs_run_ended_before_slurm_gave_its_gpu_to_the_next(
    fake, books, devices, end_s
):
    fake.node(used="gpu:a100:2(IDX:0-1)")
    fake.job(job_2405())
    slurm = books()
    slurm.poll(GPUS, NOW - 10_000)
    fake.job(job_2405(restart_cnt=1, job_state=["PENDING"], gres_detail=[]), state="PENDING")
    start = number(NOW // 1000 - 3)
    fake.job(job_2405(job_id=4712, start_time=start, gres_detail=[devices]))
    fake.node(used=devices)

    holdings = slurm.poll(GPUS, NOW + 5000)

    ends = {
        item.end_ms
        for item in holdings.allocations
        if (item.job_key, item.uuid) == ("slurm/della/4711", "GPU-0")
    }
    assert ends == {NOW + end_s * 1000}


def test_a_task_of_an_array_and_a_part_of_a_heterogeneous_job_are_found_by_their_own_names(
    fake, books
):
    fake.job(
        job_2405(
            job_id=503,
            array_job_id=number(500),
            array_task_id=number(7),
            gres_detail=["gpu:1(IDX:0)"],
        ),
        ask="500_7",
    )
    fake.job(
        job_2405(
            job_id=22, het_job_id=number(21), het_job_offset=number(1), gres_detail=["gpu:1(IDX:1)"]
        ),
        ask="21+1",
    )

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {("GPU-0", "503"): 1.0, ("GPU-1", "22"): 1.0}
    assert sorted(job.key for job in holdings.jobs) == ["slurm/della/22", "slurm/della/503"]


def test_a_sluid_leads_to_the_job(fake, books):
    fake.job(job_2405(sluid="s5K1KKYAYG5D00"))

    assert books().poll(GPUS, NOW).aliases == {
        "4711": "slurm/della/4711",
        "s5K1KKYAYG5D00": "slurm/della/4711",
    }


def test_a_gpu_that_fell_off_the_bus_moves_nobodys_hours(fake, books):
    fake.job(job_2405(gres_detail=["gpu:a100:1(IDX:3)"]))
    slurm = books()
    before = held(slurm.poll(GPUS, NOW))
    lost = GPUS[:1] + GPUS[2:]

    assert before == held(slurm.poll(lost, NOW + 1)) == {("GPU-3", "4711"): 1.0}
    with pytest.raises(SchedulerError, match="grants 4 GPUs here, the driver shows 3"):
        books().poll(lost, NOW)


def test_a_number_without_an_index_is_not_guessed(fake, books):
    fake.node(used="gpu:a100:2(IDX:N/A)")
    fake.job(job_2405(gres_detail=["gpu:a100:2(IDX:N/A)"]))

    holdings = books().poll(GPUS, NOW)

    assert list(holdings.allocations) == []
    assert holdings.unplaced == {"slurm/della/4711"}
    assert (
        holdings.doubt
        == "which GPUs job 4711 holds is not known: Slurm does not say which 2 gpu it holds"
    )


def test_a_job_that_can_not_be_read_costs_no_other_job(fake, books, caplog):
    fake.node(used="gpu:a100:3(IDX:0-1,3)")
    fake.text_job(4711, job_line(), name="train")
    fake.text_job(5, job_line(5, name="two\nlines"), name="two\nlines")
    slurm = books()

    holdings = slurm.poll(GPUS, NOW)
    slurm.poll(GPUS, NOW + 1)

    # what else is in use is its
    assert held(holdings) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0, ("GPU-3", "5"): 1.0}
    assert [(job.id, job.name, job.state, job.start_ms) for job in holdings.jobs] == [
        ("4711", "train", "RUNNING", NINE_MS),
        ("5", "", "RUNNING", NINE_MS),
    ]
    assert holdings.doubt == ""
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "a job can't be read: job 5: scontrol's answer does not begin with the job"
    ]


def test_an_unreadable_jobs_end_is_when_it_was_seen_and_its_state_the_lists(fake, books):
    fake.node(used="gpu:a100:1(IDX:3)")
    fake.text_job(5, "JobId=5", name="x")
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.text_job(5, "JobId=5", name="x", state="FAILED")
    fake.node(used=IDLE)

    holdings = slurm.poll(GPUS, NOW + 3000)

    assert [(item.uuid, item.end_ms) for item in holdings.allocations] == [("GPU-3", NOW + 3000)]
    assert [(job.state, job.end_ms) for job in holdings.jobs] == [("FAILED", NOW + 3000)]


def test_an_unreadable_job_that_completed_when_it_let_go_ends_as_the_list_says_later(fake, books):
    fake.node(used="gpu:a100:1(IDX:3)")
    fake.text_job(5, "JobId=5", name="x")
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.text_job(5, "JobId=5", name="x", state="COMPLETING")
    fake.node(used=IDLE)
    completing = slurm.poll(GPUS, NOW + 3000)
    fake.text_job(5, "JobId=5", name="x", state="COMPLETED")

    later = slurm.poll(GPUS, NOW + 33_000)
    last = slurm.poll(GPUS, NOW + 93_000)

    assert [(job.state, job.end_ms) for job in completing.jobs] == [("", None)]
    assert [(job.state, job.end_ms) for job in later.jobs] == [("COMPLETED", NOW + 3000)]
    assert [(item.uuid, item.end_ms) for item in later.allocations] == [("GPU-3", NOW + 3000)]
    assert last.jobs == []


@pytest.mark.parametrize(
    "used", ["gpu:a100:4(IDX:0-3)", "gpu:a100:4(IDX:N/A)", "gpu:a100:3(IDX:N/A)"]
)
def test_gpus_that_may_be_one_of_two_unreadable_jobs_are_given_to_nobody_and_called_free_by_nobody(
    fake, books, used
):
    fake.node(used=used)
    fake.text_job(4711, job_line(), name="train")
    for other in (5, 6):
        fake.text_job(other, "JobId=%d" % other, name="x")

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0}
    assert holdings.unplaced == {"slurm/della/5", "slurm/della/6"}
    assert holdings.doubt.startswith(
        "which GPUs job 5 holds is not known: scontrol's answer does not begin with the job; which"
        " GPUs job 6"
    )


@pytest.mark.parametrize("used", ["gpu:a100:2(IDX:0-1)", "gpu:a100:2(IDX:N/A)"])
def test_an_unreadable_job_beside_which_all_gpus_in_use_have_a_holder_is_no_doubt(
    fake, books, used
):
    fake.node(used=used)
    fake.text_job(4711, job_line(), name="train")
    fake.text_job(5, "JobId=5", name="x")

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0}
    assert (holdings.doubt, holdings.unplaced) == ("", frozenset())


def test_an_unreadable_job_whose_gpu_the_prolog_names_is_no_doubt(fake, books, tmp_path):
    fake.node(used="gpu:a100:3(IDX:N/A)")
    fake.text_job(4711, job_line(), name="train")
    fake.text_job(5, "JobId=5", name="x")
    write_claim(tmp_path / "gpustat" / "2", "5 1000\n")

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {("GPU-0", "4711"): 1.0, ("GPU-1", "4711"): 1.0, ("GPU-2", "5"): 1.0}
    assert holdings.doubt == ""


def test_a_job_that_was_over_before_it_was_asked_for_had_the_gpus_that_the_prolog_named(
    fake, books, tmp_path
):
    fake.node(used=IDLE)
    slurm = books()
    slurm.poll(GPUS, NOW)
    write_claim(tmp_path / "gpustat" / "2", "4711 1000\n", at_ms=NOW + 1000)
    is_changed = slurm.has_changed()
    (tmp_path / "gpustat" / "2").unlink()
    fake.job(
        job_2405(job_state=["COMPLETED"], gres_detail=[], end_time=number(1793699000)),
        state="COMPLETED",
    )

    holdings = slurm.poll(GPUS, NOW + 5000)

    assert is_changed
    assert list(holdings.allocations) == [
        Allocation("GPU-2", "slurm/della/4711", "slurm", NINE_MS, 1_793_699_000_000, 1.0)
    ]
    assert holdings.jobs[0].state == "COMPLETED"


def test_a_file_does_not_hold_for_a_job_that_has_ended_since(fake, books, tmp_path):
    fake.job(job_2405())
    slurm = books()
    write_claim(tmp_path / "gpustat" / "0", "4711 1000\n", at_ms=NOW - 1000)
    slurm.poll(GPUS, NOW)
    fake.node(used=IDLE)
    fake.job(
        job_2405(job_state=["COMPLETED"], gres_detail=[], end_time=number(1793699000)),
        state="COMPLETED",
    )

    holdings = slurm.poll(GPUS, NOW + 1)

    assert {item.end_ms for item in holdings.allocations} == {1_793_699_000_000}


@pytest.mark.parametrize(
    ("silence_ms", "end_ms"), [(WATCHED_MS - 1, NOW + WATCHED_MS - 1), (WATCHED_MS, None)]
)
def test_a_job_that_slurm_forgot_ended_when_that_was_seen_if_it_was_watched_until_then(
    fake, books, silence_ms, end_ms
):
    fake.job(job_2405())
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.forget(4711)
    fake.unsay("job-4711.json")
    fake.node(used=IDLE)

    holdings = slurm.poll(GPUS, NOW + silence_ms)

    assert {item.end_ms for item in holdings.allocations} == ({end_ms} if end_ms else set())
    assert [(job.state, job.end_ms) for job in holdings.jobs] == [("", None)]


def test_a_number_that_is_all_of_them_needs_no_index(fake, books):
    fake.job(job_2405(gres_detail=["gpu:a100(CNT:4)"]))

    assert len(held(books().poll(GPUS, NOW))) == 4
