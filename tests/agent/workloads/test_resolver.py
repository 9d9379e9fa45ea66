import dataclasses
import os
import time

import pytest

from agent.readings import Allocation, GPUInfo, Holdings, Job, ProcessReading
from agent.workloads import Resolver
from tests.agent import fake_proc
from tests.agent.workloads.resolving import (
    GPU,
    GPUS,
    HEX,
    NOW,
    SLURM_4711,
    TRAIN,
    Books,
    add,
    ask,
    holds,
    made,
    resolve,
    slurm,
    statuses,
)


def test_a_bare_process_holds_its_gpu_from_the_first_window_that_saw_it(root):
    fake_proc.process(root, 4711, start_ticks=77)
    resolver = made(root)
    seen = {GPU: [ProcessReading(4711, 1024)]}

    resolver.resolve(seen, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)
    workload = resolver.resolve(seen, gpus=[], start_ms=NOW + 10_000, end_ms=NOW + 20_000)

    (job,), (allocation,), (process,) = workload.jobs, workload.allocations, workload.processes
    assert (job.key, job.user, job.name, job.kind) == (
        "process/gpu-07/0b7c1f7e-4711-77",
        "root",
        "python",
        "batch",
    )
    assert (allocation.uuid, allocation.job_key, allocation.source) == (GPU, job.key, "process")
    assert (allocation.start_ms, allocation.end_ms) == (NOW, None)
    assert (process.pid, process.job_key, process.state, process.memory_bytes) == (
        4711,
        job.key,
        "S",
        1024,
    )
    assert process.start_ticks == 77
    assert [(source.kind, source.ok) for source in workload.sources] == [("process", True)]


def test_a_process_that_began_within_the_window_holds_from_its_own_start(root):
    fake_proc.process(root, 4711, start_ticks=105 * os.sysconf("SC_CLK_TCK"))

    workload = made(root).resolve(
        {GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000
    )

    assert workload.allocations[0].start_ms == NOW + 5_000


def test_the_command_line_never_leaves_the_host(root):
    fake_proc.process(root, 4711)

    workload = made(root).resolve(
        {GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000
    )

    assert "hunter2" not in repr(workload)
    assert "train.py" not in repr(workload)


def test_a_zombie_is_listed_but_holds_nothing(root):
    fake_proc.process(root, 4711, state="Z")

    workload = made(root).resolve(
        {GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000
    )

    assert workload.allocations == []
    assert workload.processes[0].state == "Z"


def test_waiting_for_a_disk_is_no_death_but_a_minute_of_it_is(root):
    fake_proc.process(root, 4711, state="D")
    resolver = made(root)
    seen = {GPU: [ProcessReading(4711)]}

    held = [
        len(
            resolver.resolve(seen, gpus=[], start_ms=NOW + at, end_ms=NOW + at + 10_000).allocations
        )
        for at in range(0, 70_000, 10_000)
    ]

    assert held == [1, 1, 1, 1, 1, 0, 0]


def test_a_pid_of_another_namespace_is_listed_and_concludes_nothing(root):
    workload = made(root).resolve(
        {GPU: [ProcessReading(12)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000
    )

    assert (workload.jobs, workload.allocations) == ([], [])
    [process] = workload.processes
    assert (process.pid, process.job_key, process.start_ticks) == (12, None, None)


def test_where_no_list_could_be_read_the_source_is_not_ok(root):
    workload = made(root).resolve({GPU: None}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert [(source.kind, source.ok) for source in workload.sources] == [("process", False)]


def test_a_container_is_one_job_on_all_its_gpus_even_without_the_docker_socket(root):
    for pid in (4711, 4712):
        fake_proc.process(root, pid, cgroup=f"0::/system.slice/docker-{HEX}.scope\n")

    workload = made(root).resolve(
        {GPU: [ProcessReading(4711)], "GPU-2": [ProcessReading(4712)]},
        gpus=[],
        start_ms=NOW,
        end_ms=NOW + 10_000,
    )

    assert [job.key for job in workload.jobs] == [f"docker/gpu-07/{HEX[:12]}"]
    assert [(item.uuid, item.source) for item in workload.allocations] == [
        (GPU, "docker"),
        ("GPU-2", "docker"),
    ]
    assert {source.kind for source in workload.sources} == {"process", "docker"}


BOBS = Job(
    f"docker/gpu-07/{HEX[:12]}", "docker", "gpu-07", HEX[:12], "bobs-training", "bob", "team-bob"
)


ANNS = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/"


def test_a_group_that_a_user_names_like_a_container_of_root_is_not_that_container(root):
    fake_proc.process(root, 4711, cgroup=f"0::/system.slice/docker-{HEX}.scope")
    fake_proc.process(root, 4712, cgroup=f"{ANNS}docker-{HEX}.scope")
    resolver = made(root, Books("docker", Holdings(jobs=[BOBS], aliases={HEX: BOBS.key})))
    ask(resolver)

    workload = resolve(resolver, {GPU: [ProcessReading(4711)], "GPU-2": [ProcessReading(4712)]})

    assert [(item.uuid, item.job_key.split("/")[0]) for item in workload.allocations] == [
        (GPU, "docker"),
        ("GPU-2", "process"),
    ]


def test_a_container_of_a_users_own_engine_is_known_by_his_books(root):
    fake_proc.process(root, 4711, cgroup=f"{ANNS}docker-{HEX}.scope")
    resolver = made(root, Books("docker", Holdings(jobs=[BOBS], aliases={f"{HEX}@1000": BOBS.key})))
    ask(resolver)

    assert [(job.key, job.name) for job in resolve(resolver, [4711]).jobs] == [
        (BOBS.key, "bobs-training")
    ]


def test_a_users_own_container_is_not_the_one_that_root_gave_the_same_name(root):
    fake_proc.process(root, 4711, cgroup="0::/lxc.payload.train/x")
    fake_proc.process(root, 4712, cgroup=f"{ANNS}lxc.payload.train/x")

    assert sorted(job.key for job in resolve(made(root), [4711, 4712]).jobs) == [
        "lxc/gpu-07/train",
        "lxc/gpu-07/user-1000-train",
    ]


def test_a_declared_job_holds_all_gpus_whatever_runs(root):
    fake_proc.process(root, 4711)
    declared = Job(
        key="declared/gpu-07/train", scheduler="declared", user="ann", start_ms=NOW - 60_000
    )
    gpus = [GPUInfo(GPU), GPUInfo("GPU-2")]

    workload = made(root, declared=declared).resolve(
        {GPU: [ProcessReading(4711)]}, gpus=gpus, start_ms=NOW, end_ms=NOW + 10_000
    )

    assert [(item.uuid, item.source, item.start_ms) for item in workload.allocations] == [
        (GPU, "declared", NOW - 60_000),
        ("GPU-2", "declared", NOW - 60_000),
    ]
    assert workload.processes[0].job_key == declared.key
    assert [(source.kind, source.ok) for source in workload.sources] == [("declared", True)]


def test_a_scheduler_gives_the_gpu_out_with_or_without_a_process(root):
    workload = resolve(made(root, slurm(TRAIN)))

    assert (workload.jobs, holds(workload)) == ([TRAIN], [(GPU, TRAIN.key, "slurm")])
    assert statuses(workload) == {"slurm": True, "process": True}


def test_a_job_that_has_just_ended_tells_how_though_it_holds_nothing_any_more(root):
    ended = Job(
        "slurm/della/4710", "slurm", "della", "4710", state="OUT_OF_MEMORY", end_ms=NOW + 5000
    )

    workload = resolve(made(root, Books("slurm", Holdings(jobs=[ended]))))

    assert (workload.jobs, workload.allocations) == ([ended], [])


def test_a_job_that_ended_is_told_with_what_it_held_until_then_and_explains_no_later_window(root):
    fake_proc.process(root, 4712, cgroup=SLURM_4711.replace("4711", "4712"), children=(11,))
    fake_proc.process(root, 11)
    ended = dataclasses.replace(TRAIN, state="COMPLETED", end_ms=NOW + 5000)
    next_job = dataclasses.replace(TRAIN, key="slurm/della/4712", id="4712", start_ms=NOW + 5000)
    books = slurm(ended, next_job)
    given = [
        Allocation(GPU, ended.key, "slurm", ended.start_ms, ended.end_ms),
        Allocation(GPU, next_job.key, "slurm", NOW + 5000),
    ]
    books.holdings = dataclasses.replace(books.holdings, allocations=given)
    resolver = made(root, books)

    both, later = resolve(resolver, [4712]), resolve(resolver, [4712], at=10_000)

    assert (both.allocations, later.allocations) == (given, given)
    # of a window that two held nobody's facts
    assert (both.facts, sorted(later.facts)) == ({}, [GPU])


def younger(root, started_ms, *, holdings, on="GPU-2"):
    """Slurm's books as they were at NOW, and a process in the control group of job 5000 that
    started then or later.
    """
    ticks = (started_ms - fake_proc.BOOT_S * 1000) // 10
    fake_proc.process(
        root, 5000, cgroup="0::/system.slice/slurmstepd.scope/job_5000/step_0", start_ticks=ticks
    )
    resolver = made(root, Books("slurm", holdings))
    resolver._pollers["slurm"]._now_ms = lambda: NOW
    ask(resolver)
    return resolve(resolver, {on: [ProcessReading(5000)]})


@pytest.mark.parametrize(
    ("started_ms", "held"), [(NOW - 10, []), (NOW, [("GPU-2", "slurm/della/5000", "slurm")])]
)
def test_a_process_that_is_younger_than_the_books_holds_its_gpu_for_the_job_of_its_control_group(
    root, started_ms, held
):
    workload = younger(root, started_ms, holdings=slurm(TRAIN).holdings)

    assert holds(workload) == [(GPU, TRAIN.key, "slurm"), *held]
    assert {item.start_ms for item in workload.allocations[1:]} == ({started_ms} if held else set())


def test_on_a_gpu_that_the_books_give_to_somebody_they_are_right(root):
    workload = younger(root, NOW, holdings=slurm(TRAIN).holdings, on=GPU)

    assert holds(workload) == [(GPU, TRAIN.key, "slurm")]


def test_a_job_whose_gpus_the_books_can_not_tell_holds_those_with_its_processes(root):
    unplaced = Job("slurm/della/5000", "slurm", "della", "5000", user="ann", start_ms=NOW - 5000)
    books = Holdings(
        [unplaced],
        [],
        {"5000": unplaced.key},
        unplaced=frozenset([unplaced.key]),
        doubt="which GPUs is not known",
    )

    workload = younger(root, NOW - 4000, holdings=books)

    assert workload.allocations == [
        Allocation("GPU-2", unplaced.key, "slurm", NOW - 5000, None, 1.0)
    ]
    assert workload.sources[0].ok is False


def test_a_process_of_a_job_that_has_ended_holds_nothing(root):
    ended = Job("slurm/della/5000", "slurm", "della", "5000", state="COMPLETED", end_ms=NOW - 1000)

    workload = younger(root, NOW, holdings=Holdings([ended], [], {"5000": ended.key}))

    assert workload.allocations == []


def test_a_container_that_only_could_use_the_gpu_is_no_job(root):
    container = Job(f"docker/gpu-07/{HEX[:12]}", "docker", "gpu-07", HEX[:12], "llama-train")

    workload = resolve(made(root, Books("docker", Holdings([container], [], {HEX: container.key}))))

    assert (workload.jobs, workload.allocations) == ([], [])


def test_a_process_meets_its_schedulers_job(root):
    fake_proc.process(root, 4711, cgroup=SLURM_4711)

    workload = resolve(made(root, slurm(TRAIN)), [4711])

    assert workload.processes[0].job_key == TRAIN.key
    assert workload.jobs == [TRAIN]


def test_a_control_group_with_a_sluid_meets_its_job_by_the_books(root):
    fake_proc.process(root, 4711, cgroup="0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0")

    workload = resolve(made(root, slurm(TRAIN, aliases={"s5K1KKYAYG5D00": TRAIN.key})), [4711])

    assert workload.processes[0].job_key == TRAIN.key


def test_a_sluid_that_the_books_do_not_know_is_told_by_the_process_itself(root):
    variables = {"SLURM_JOB_SLUID": "s5K1KKYAYG5D00", "SLURM_JOB_ID": "4711"}
    fake_proc.process(
        root,
        4711,
        cgroup="0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0",
        environment=variables,
    )
    fake_proc.process(
        root,
        4712,
        cgroup="0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D0A/step_0",
        environment=variables,
    )

    workload = resolve(made(root, cluster="della"), [4711, 4712])

    assert [process.job_key for process in workload.processes] == [
        "slurm/della/4711",
        "slurm/della/s5K1KKYAYG5D0A",
    ]


def test_on_a_node_with_a_scheduler_a_bare_process_holds_nothing_and_is_listed(root):
    fake_proc.process(root, 99)

    workload = resolve(made(root, slurm()), [99])

    assert (workload.jobs, workload.allocations) == ([], [])
    assert [(process.pid, process.job_key) for process in workload.processes] == [(99, None)]


def test_a_scheduler_that_went_silent_is_unknown_not_free_and_its_processes_keep_their_job(root):
    books = slurm(TRAIN)
    resolver = made(root, books)
    fake_proc.process(root, 4711, cgroup=SLURM_4711)
    books.holdings = None
    ask(resolver, later_s=59)
    lately = resolve(resolver, [4711])
    ask(resolver, later_s=1)

    workload = resolve(resolver, [4711])

    assert (statuses(lately)["slurm"], len(lately.allocations)) == (True, 1)
    assert (statuses(workload)["slurm"], workload.allocations) == (False, [])
    assert (workload.processes[0].job_key, workload.jobs) == (TRAIN.key, [TRAIN])


def test_a_job_that_the_silent_scheduler_never_named_gets_the_clusters_last_known_name(root):
    books = slurm(TRAIN)
    resolver = made(root, books)
    resolve(resolver)
    fake_proc.process(
        root, 5000, cgroup="0::/system.slice/slurmstepd.scope/job_5000/step_0", uid=3_999_123
    )
    books.holdings = None
    ask(resolver, later_s=60)

    workload = resolve(resolver, [5000])

    (job,) = workload.jobs
    assert (job.key, job.cluster, job.id, job.user) == (
        "slurm/della/5000",
        "della",
        "5000",
        "3999123",
    )


@pytest.mark.parametrize(
    ("cluster", "key"), [("", "slurm/default/4711"), ("della", "slurm/della/4711")]
)
def test_a_scheduler_that_never_answered_has_the_operators_word_for_the_cluster(root, cluster, key):
    fake_proc.process(root, 4711, cgroup=SLURM_4711)

    workload = resolve(made(root, Books("slurm", None), cluster=cluster), [4711])

    assert (workload.processes[0].job_key, workload.allocations) == (key, [])
    assert statuses(workload) == {"slurm": False, "process": True}


def test_the_queues_demand_and_a_drained_node_are_told_while_the_books_are_fresh(root):
    books = slurm(TRAIN, pending_gpus=12, drained="bad DIMM")
    resolver = made(root, books)
    fresh = resolve(resolver)
    books.holdings = None
    ask(resolver, later_s=60)

    stale = resolve(resolver)

    assert (fresh.pending_gpus, fresh.drained) == (12, "bad DIMM")
    assert (stale.pending_gpus, stale.drained) == (None, None)


def test_the_schedulers_are_asked_in_threads_of_their_own(root):
    resolver = Resolver(node="gpu-07", proc_root=str(root), schedulers=lambda: [slurm(TRAIN)])
    resolver.look(GPUS)
    deadline_s = time.monotonic() + 5

    while not (workload := resolve(resolver)).allocations and time.monotonic() < deadline_s:
        time.sleep(0.001)
    resolver._pollers["slurm"].stop()

    assert holds(workload) == [(GPU, TRAIN.key, "slurm")]


def test_a_scheduler_that_starts_after_the_agent_gives_the_gpus_out_from_then_on(root):
    fake_proc.process(root, 99)
    resolver = made(root)
    before = resolve(resolver, [99])
    add(resolver, slurm(TRAIN))
    unasked = resolve(resolver, [99], at=10_000)
    ask(resolver)

    after = resolve(resolver, [99], at=20_000)

    assert [source for _, _, source in holds(before)] == ["process"]
    assert (statuses(unasked)["slurm"], unasked.allocations) == (False, [])
    assert holds(after) == [(GPU, TRAIN.key, "slurm")]


def test_a_gpu_with_one_holder_has_its_holders_facts_and_a_shared_one_none(root):
    for pid in (1, 2, 3):
        fake_proc.process(root, pid, children=(11, 12))
    for pid in (11, 12):
        fake_proc.process(root, pid)

    workload = resolve(
        made(root), {GPU: [ProcessReading(1)], "GPU-2": [ProcessReading(2), ProcessReading(3)]}
    )

    assert {uuid: facts["job_workers"] for uuid, facts in workload.facts.items()} == {GPU: 2}


def test_how_a_job_ended_is_told_although_it_holds_nothing_any_more(root):
    ended = Job(
        "slurm/della/4711", "slurm", "della", "4711", "train", state="FAILED", end_ms=NOW - 5000
    )
    idle = Job("slurm/della/4712", "slurm", "della", "4712")
    resolver = made(root, Books("slurm", Holdings(jobs=[ended, idle])))

    workload = resolver.resolve({GPU: []}, gpus=GPUS, start_ms=NOW - 10_000, end_ms=NOW)

    assert list(workload.jobs) == [ended]
    assert list(workload.allocations) == []


@pytest.mark.parametrize(
    ("cgroup", "memory"),
    [(f"0::/system.slice/docker-{HEX}.scope\n", None), (SLURM_4711, 5000), ("", 5000)],
    ids=["a container's", "its own", "none is there"],
)
def test_a_jobs_memory_is_read_where_its_work_is_known_to_be_in_its_group(tmp_path, cgroup, memory):
    (tmp_path / "proc").mkdir()
    root = fake_proc.host(tmp_path / "proc")
    group = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711"
    group.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    (group / "memory.current").write_text("5000\n")
    (group / "memory.stat").write_text("inactive_file 0\n")
    pids = [4712] if cgroup else []
    if cgroup:
        fake_proc.process(root, 4712, cgroup=cgroup)

    workload = resolve(made(root, slurm(TRAIN)), pids)

    assert workload.facts.get(GPU, {}).get("job_memory_bytes") == memory
