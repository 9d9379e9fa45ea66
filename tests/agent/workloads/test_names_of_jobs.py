"""By what name a process is known: its books, its control group, what it was started with."""

import dataclasses

import pytest

from agent.readings import Allocation, Holdings, Job, ProcessReading
from tests.agent import fake_proc
from tests.agent.workloads.resolving import (
    GPU,
    HEX,
    NOW,
    POD,
    SLURM_4711,
    TRAIN,
    Books,
    holds,
    made,
    resolve,
    slurm,
    statuses,
)


def test_without_books_a_slurm_job_is_held_by_its_processes_and_known_by_what_they_were_started_with(
    root,
):
    variables = {
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_ACCOUNT": "nlp",
        "SLURM_JOB_PARTITION": "gpu",
    }
    fake_proc.process(root, 4711, cgroup=SLURM_4711, environment=variables)

    workload = resolve(made(root, cluster="della"), [4711])

    (job,) = workload.jobs
    assert (job.key, job.name, job.account, job.labels) == (
        "slurm/della/4711",
        "train",
        "nlp",
        {"slurm_job_partition": "gpu"},
    )
    assert holds(workload) == [(GPU, job.key, "process")]


def test_what_the_books_tell_is_not_told_again_from_the_environment(root):
    """Of a heterogeneous job the environment names another partition than the component has."""
    variables = {
        "SLURM_JOB_PARTITION": "cpu",
        "SLURM_JOB_QOS": "high",
        "SLURM_ARRAY_TASK_ID": "7",
        "WANDB_PROJECT": "vision",
    }
    fake_proc.process(root, 4711, cgroup=SLURM_4711, environment=variables)
    known = Job(
        "slurm/della/4711",
        "slurm",
        "della",
        "4711",
        user="root",
        labels={"partition": "gpu", "array_task": "7"},
    )

    workload = resolve(
        made(
            root,
            Books(
                "slurm", Holdings(jobs=[known], allocations=[Allocation(GPU, known.key, "slurm")])
            ),
        ),
        [4711],
    )

    assert [job.labels for job in workload.jobs] == [
        {"partition": "gpu", "array_task": "7", "slurm_job_qos": "high", "wandb_project": "vision"}
    ]


def test_a_job_claimed_without_a_control_group_is_believed_where_nothing_contradicts_it(root):
    fake_proc.process(root, 1, environment={"PBS_JOBID": "811.pbs01"})

    workload = resolve(made(root, cluster="hpc"), [1])

    assert [job.key for job in workload.jobs] == ["pbs/hpc/811.pbs01"]


@pytest.mark.parametrize(
    ("uid", "job_id", "key"),
    [
        (0, "4711", "slurm/della/4711"),
        (3_999_123, "4711", None),  # another user's job
        (0, "4712", None),  # no job of this scheduler's
    ],
)
def test_a_claim_that_the_books_contradict_is_not_believed(root, uid, job_id, key):
    fake_proc.process(root, 1, uid=uid, environment={"SLURM_JOB_ID": job_id})
    roots = Job("slurm/della/4711", "slurm", "della", "4711", user="root")

    workload = resolve(made(root, slurm(roots)), [1])

    assert workload.processes[0].job_key == key


def test_a_control_group_counts_more_than_a_claim(root):
    fake_proc.process(
        root, 1, cgroup=SLURM_4711, environment={"SLURM_JOB_ID": "9", "PBS_JOBID": "8"}
    )

    workload = resolve(made(root, slurm(TRAIN)), [1])

    assert workload.processes[0].job_key == TRAIN.key


def test_a_pod_meets_its_job_by_its_uid_and_has_a_key_without_it(root):
    fake_proc.process(root, 1, cgroup=f"0::/kubepods/besteffort/pod{POD}/{HEX}")
    pod = Job(f"kubernetes/prod/{POD}", "kubernetes", "prod", POD, "ml/train-0")
    known = Books(
        "kubernetes", Holdings([pod], [Allocation(GPU, pod.key, "kubernetes")], {POD: pod.key})
    )

    by_books = resolve(made(root, known), [1])
    without = resolve(made(root, Books("kubernetes", None), cluster="prod"), [1])

    assert (by_books.processes[0].job_key, by_books.jobs) == (pod.key, [pod])
    assert (without.processes[0].job_key, without.allocations) == (pod.key, [])


@pytest.mark.parametrize("alias", [HEX, HEX[:12]])
@pytest.mark.parametrize(
    "cgroup", [f"0::/system.slice/docker-{HEX}.scope", f"5:devices:/{HEX}\n4:memory:/{HEX}"]
)
def test_a_container_has_the_name_that_its_daemon_gives_it(root, alias, cgroup):
    fake_proc.process(root, 1, cgroup=cgroup)
    container = Job(
        f"docker/gpu-07/{HEX[:12]}",
        "docker",
        "gpu-07",
        HEX[:12],
        "llama-train",
        labels={"fleetwatch.kind": "batch"},
    )

    workload = resolve(
        made(root, Books("docker", Holdings([container], [], {alias: container.key}))), [1]
    )

    assert workload.jobs == [dataclasses.replace(container, user="root")]
    assert holds(workload) == [(GPU, container.key, "docker")]
    assert statuses(workload) == {"docker": True, "process": True}


def test_a_container_that_was_given_a_gpu_holds_it_once(root):
    fake_proc.process(root, 1, cgroup=f"0::/system.slice/docker-{HEX}.scope")
    container = Job(f"docker/gpu-07/{HEX[:12]}", "docker", "gpu-07", HEX[:12], "llama-train")
    books = Books(
        "docker",
        Holdings(
            [container],
            [Allocation(GPU, container.key, "docker", NOW - 5000)],
            {HEX: container.key},
        ),
    )

    workload = resolve(made(root, books), {GPU: [ProcessReading(1)], "GPU-2": [ProcessReading(1)]})

    assert [(item.uuid, item.start_ms) for item in workload.allocations] == [
        (GPU, NOW - 5000),
        ("GPU-2", NOW),
    ]


def test_beside_a_scheduler_containers_hold_nothing(root):
    container = Job(f"docker/gpu-07/{HEX[:12]}", "docker", "gpu-07", HEX[:12], "llama-train")
    docker = Books(
        "docker",
        Holdings([container], [Allocation("GPU-2", container.key, "docker")], {HEX: container.key}),
    )

    workload = resolve(made(root, slurm(TRAIN), docker))

    assert holds(workload) == [(GPU, TRAIN.key, "slurm")]


@pytest.mark.parametrize(
    ("cgroup", "key", "kind"),
    [
        ("0::/system.slice/ollama.service", "systemd/gpu-07/ollama.service", "service"),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service",
            "systemd/gpu-07/user-1000-train.service",
            "service",
        ),
        ("0::/system.slice/run-r8d1.scope", "systemd/gpu-07/run-r8d1.scope", "batch"),
        (
            "0::/user.slice/user-1000.slice/session-3.scope",
            "process/gpu-07/0b7c1f7e-1-100",
            "batch",
        ),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/init.scope",
            "process/gpu-07/0b7c1f7e-1-100",
            "batch",
        ),
        ("0::/system.slice/sshd.service", "process/gpu-07/0b7c1f7e-1-100", "batch"),
        ("0::/system.slice/slurmd.service", "process/gpu-07/0b7c1f7e-1-100", "batch"),
        (f"0::/machine.slice/libpod-{HEX}.scope", f"podman/gpu-07/{HEX[:12]}", "batch"),
        ("0::/lxc.payload.lab-1", "lxc/gpu-07/lab-1", "batch"),
    ],
)
def test_on_a_bare_node_services_and_containers_are_jobs_and_sessions_are_not(
    root, cgroup, key, kind
):
    fake_proc.process(root, 1, cgroup=cgroup)

    workload = resolve(made(root), [1])

    assert [(job.key, job.kind) for job in workload.jobs] == [(key, kind)]
    assert holds(workload) == [(GPU, key, "docker" if key.startswith("podman/") else "process")]


def test_a_notebook_is_interactive_also_while_its_kernel_is_off_the_gpu(root):
    fake_proc.process(
        root,
        1,
        cgroup=SLURM_4711,
        command=("python", "-m", "ipykernel_launcher"),
        environment={"WANDB_PROJECT": "x"},
    )
    resolver = made(root, slurm(TRAIN))

    first, second = resolve(resolver, [1]), resolve(resolver, [], at=10_000)

    assert [(job.kind, job.labels) for job in (*first.jobs, *second.jobs)] == [
        ("interactive", {"wandb_project": "x"})
    ] * 2


def test_what_the_books_say_of_a_jobs_kind_counts(root):
    fake_proc.process(root, 1, cgroup=SLURM_4711, command=("python", "-m", "ipykernel_launcher"))
    service = Job("slurm/della/4711", "slurm", "della", "4711", kind="service")

    assert [job.kind for job in resolve(made(root, slurm(service)), [1]).jobs] == ["service"]
