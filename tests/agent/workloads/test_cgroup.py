import json
import os
from pathlib import Path

import pytest

from agent.workloads.cgroup import MAX_BYTES, Owner, owner_of

A = "9ec39b91" * 8
B = "ec08435e" * 8
POD = "045b1e35-7f13-11e7-ac42-0050568ffca0"
UNDERSCORED = POD.replace("-", "_")
STATIC = "487a0dc6dccaeefbcfedba7a7ce1ca18"
PODS = "0::/kubepods.slice/kubepods-burstable.slice"
DATA = os.environ.get("FLEETWATCH_EXTERNAL_DATA", "")
recorded = pytest.mark.skipif(not DATA, reason="FLEETWATCH_EXTERNAL_DATA is not set")


def pod(container=A, uid=POD):
    return Owner("kubernetes", uid, container)


SLURM = {
    "v1": ("4:memory:/slurm/uid_20821/job_11/step_0/task_1", "11"),
    "v1 batch step": ("4:memory:/slurm/uid_20821/job_11/step_batch", "11"),
    "v1 of one slurmd of several": ("4:memory:/slurm_node7/uid_20821/job_11/step_extern", "11"),
    "v2": ("0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0", "4"),
    "v2 of one slurmd of several": (
        "0::/system.slice/node7_slurmstepd.scope/job_4/step_extern/user",
        "4",
    ),
    "26.05 names the SLUID": (
        "0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0",
        "s5K1KKYAYG5D00",
    ),
    "from another cgroup namespace": ("0::/../../system.slice/slurmstepd.scope/job_4/step_0", "4"),
    "hybrid: v2 says nothing": (
        "5:devices:/slurm/uid_7/job_12/step_0\n0::/system.slice/slurmd.service",
        "12",
    ),
    "a container inside the job": (
        f"0::/system.slice/slurmstepd.scope/job_4/step_0/user/docker-{A}.scope",
        "4",
    ),
    "slurmd inside a pod": (
        f"{PODS}/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{A}.scope/slurmstepd.scope/job_4/step_0",
        "4",
    ),
}
OWNERS = {
    "torque": ("7:cpuset:/torque/1182724.batch", Owner("torque", "1182724.batch")),
    "PBS": ("7:cpuset:/pbs_jobs.service/jobid/811.pbs01", Owner("pbs", "811.pbs01")),
    "LSF": ("7:cpuset:/lsf/cluster1/job.3.23860.1433140412", Owner("lsf", "3")),
    "pod, systemd driver, containerd": (
        f"{PODS}/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{A}.scope",
        pod(),
    ),
    "pod, systemd driver, CRI-O": (
        f"{PODS}/kubepods-burstable-pod{UNDERSCORED}.slice/crio-{A}.scope/container",
        pod(),
    ),
    "pod, systemd driver, Docker": (
        f"{PODS}/kubepods-burstable-pod{UNDERSCORED}.slice/docker-{A}.scope",
        pod(),
    ),
    "pod of the guaranteed class": (
        f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{A}.scope",
        pod(),
    ),
    "pod in kind, with a slice above": (
        f"0::/kubelet.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{A}.scope",
        pod(),
    ),
    "pod, cgroupfs driver": (f"\t11:pids:/kubepods/besteffort/pod{POD}/{A}", pod()),
    "pod, cgroupfs driver, deeper": (
        f"11:pids:/kubepods/besteffort/pod{POD}/{A}/kube-proxy",
        pod(),
    ),
    "static pod": (f"{PODS}/kubepods-burstable-pod{STATIC}.slice/crio-{A}.scope", pod(uid=STATIC)),
    "pod, containerd below its own service": (
        f"5:devices:/system.slice/containerd.service/kubepods-besteffort-pod{UNDERSCORED}.slice:cri-containerd:{A}",
        pod(),
    ),
    "pod from another pod's cgroup namespace": (
        f"0::/../../kubepods-besteffort-pod{UNDERSCORED}.slice/crio-{A}.scope",
        pod(),
    ),
    "pod, cgroupfs, from another pod's namespace": (f"0::/../../pod{POD}/{A}", pod()),
    "pod without a container": (f"0::/kubepods/pod{POD}", pod("")),
    "Docker in a pod": (f"0::/kubepods/besteffort/pod{POD}/{A}/docker/{B}", pod()),
    "pod in Docker (kind)": (f"0::/docker/{B}/kubepods/besteffort/pod{POD}/{A}", pod()),
    "Docker, systemd driver": (f"0::/system.slice/docker-{A}.scope", Owner("docker", A, A)),
    "Docker, cgroupfs driver": (
        f"12:name=systemd:/docker/{A}\n5:devices:/docker/{A}",
        Owner("docker", A, A),
    ),
    "Docker in Docker: the innermost": (
        f"9:name=systemd:/docker/{A}/docker/{B}",
        Owner("docker", B, B),
    ),
    "Docker beside our own container": (f"0::/../docker-{A}.scope", Owner("docker", A, A)),
    "Docker on ECS": (f"5:devices:/ecs/train/0f9de17a/{A}", Owner("docker", A, A)),
    "Docker, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope",
        Owner("docker", A, A, 1000),
    ),
    "Podman": (f"0::/machine.slice/libpod-{A}.scope/container", Owner("podman", A, A)),
    "Podman with split cgroups": (
        f"0::/system.slice/train.service/libpod-payload-{A}",
        Owner("podman", A, A),
    ),
    "Podman, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope/container",
        Owner("podman", A, A, 1000),
    ),
    "Podman in Docker: the innermost": (
        f"0::/docker/{A}/machine.slice/libpod-{B}.scope",
        Owner("podman", B, B),
    ),
    "containerd by nerdctl": (f"0::/system.slice/nerdctl-{A}.scope", Owner("containerd", A, A)),
    "LXC, v1": ("4:memory:/lxc/train-1/user.slice", Owner("lxc", "train-1")),
    "LXC, v2": ("0::/lxc.payload.train-1/system.slice/ollama.service", Owner("lxc", "train-1")),
    "Docker in LXC: the innermost": (f"0::/lxc.payload.train-1/docker/{A}", Owner("docker", A, A)),
    "a VM": (
        r"0::/machine.slice/machine-qemu\x2d3\x2dgpu\x2dvm.scope/libvirt/emulator",
        Owner("libvirt", "gpu-vm"),
    ),
    "a VM, v1 without systemd": (
        "4:memory:/machine/qemu-3-gpuvm.libvirt-qemu/emulator",
        Owner("libvirt", "gpuvm"),
    ),
    "a service": ("0::/system.slice/ollama.service", Owner("systemd", "ollama.service")),
    "a service with an escaped name": (
        r"0::/system.slice/jupyter\x2dhub.service",
        Owner("systemd", "jupyter-hub.service"),
    ),
    "an instance of a service": (
        "0::/system.slice/system-vllm.slice/vllm@7b.service",
        Owner("systemd", "vllm@7b.service"),
    ),
    "a user's service": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
        Owner("systemd", "user-1000-jupyter.service", user_id=1000),
    ),
    "a session": (
        "0::/user.slice/user-1000.slice/session-3.scope",
        Owner("systemd", "session-3.scope", user_id=1000),
    ),
    "a session, v1": (
        "5:devices:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-3.scope",
        Owner("systemd", "session-3.scope", user_id=1000),
    ),
    "systemd-run": ("0::/system.slice/run-r8d1.scope", Owner("systemd", "run-r8d1.scope")),
    "a user's manager": (
        "0::/user.slice/user-1000.slice/user@1000.service/init.scope",
        Owner("systemd", "user-1000.slice", user_id=1000),
    ),
    "v1 without a runtime's name, in every hierarchy": (
        f"5:devices:/{A}\n4:memory:/{A}\n2:cpu:/",
        Owner("container", A, A),
    ),
    "a container beside our own, without a runtime's name": (
        f"0::/../{A}",
        Owner("container", A, A),
    ),
}
NOBODY = {
    "the root": "0::/",
    "slurmstepd itself": "0::/system.slice/slurmstepd.scope/system",
    "a bare hex string": f"0::/{A}",
    "a bare hex string in v1": f"5:devices:/{A}",
    "a bare hex string somewhere": f"0::/build/{A}/x",
    "different hex strings": f"5:devices:/{A}\n4:memory:/{B}",
    "65 digits": f"0::/docker/{A}a",
    "a job without its uid": "4:memory:/slurm/job_11",
    "a name that only ends like a job": "0::/system.slice/slurmstepd.scope/job_4x",
    "a SLUID with a letter that there is none of": (
        "0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D0I"
    ),
    "a pod's name that only begins like a uid": "0::/kubepods/pod045b1e35",
    "LXC's own monitor": "0::/lxc.monitor.train-1",
    "no text": "",
    "no lines": "docker",
    "half a line": "0:",
}
CLAIMS = {
    "a job in the user's own group": (
        "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_4"
    ),
    "a job in the user's own v1 group": "4:memory:/user.slice/user-1000.slice/slurm/uid_1000/job_4",
    "a pod in the user's own group": (
        f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{POD}/{A}"
    ),
}


@pytest.mark.parametrize(("text", "job"), SLURM.values(), ids=SLURM)
def test_a_process_of_a_slurm_job_names_the_job(text, job):
    assert owner_of(text) == Owner("slurm", job)


@pytest.mark.parametrize(("text", "owner"), OWNERS.values(), ids=OWNERS)
def test_the_control_group_names_the_owner(text, owner):
    assert owner_of(text) == owner


@pytest.mark.parametrize("text", NOBODY.values(), ids=NOBODY)
def test_what_names_no_owner_is_nobodys(text):
    assert owner_of(text) is None


@pytest.mark.parametrize("text", CLAIMS.values(), ids=CLAIMS)
def test_a_group_that_the_user_made_himself_is_no_job(text):
    owner = owner_of(text)

    assert (owner.kind, owner.user_id) == ("systemd", 1000)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0",
            "/system.slice/slurmstepd.scope/job_4",
        ),
        (f"0::/kubepods/besteffort/pod{POD}/{A}", f"/kubepods/besteffort/pod{POD}"),
        (f"0::/system.slice/docker-{A}.scope/init", f"/system.slice/docker-{A}.scope"),
        ("0::/system.slice/ollama.service/runner", "/system.slice/ollama.service"),
    ],
)
def test_the_path_is_that_of_the_whole_job(text, path):
    assert owner_of(text).path == path


def test_a_text_without_end_is_cut():
    assert owner_of("0::/" + "x" * MAX_BYTES + f"/docker/{A}") is None


@recorded
def test_every_container_of_the_recorded_machines_is_named_and_nothing_else():
    cases = json.loads((Path(DATA) / "cgroups/containers_v1.json").read_text())

    owners = {case["test"]: owner_of(case["proc_cgroup"]) for case in cases}

    assert {name: owner and owner.container for name, owner in owners.items()} == {
        case["test"]: case["container_id"] for case in cases
    }
    kinds = {name: owner.kind for name, owner in owners.items() if owner is not None}
    assert {kinds[name] for name in kinds if name.startswith("TestK8s") or "Kubepods" in name} == {
        "kubernetes"
    }
    # one path is nothing but 64 hex digits: a container, but nobody says whose
    assert kinds["TestDockerIDDebian"] == "container"
    assert {
        kinds[name]
        for name in ("TestDockerIDCentOS", "TestDockerIDUbuntu", "TestDockerIDRancherOS")
    } == {"docker"}


@recorded
def test_every_job_of_the_recorded_directories_is_named_and_nothing_else():
    lines = (Path(DATA) / "cgroups/slurm_torque_dirs.txt").read_text().split()
    # v1 directories begin with their controller, which is no part of the path in /proc
    texts = {
        line: (
            "0::" + line
            if line.startswith("/system")
            else "1:%s:/%s" % tuple(line[1:].split("/", 1))
        )
        for line in lines
    }

    owners = {line: owner_of(text) for line, text in texts.items()}

    expected = {
        line: Owner("slurm", line.split("job_")[1].split("/")[0]) if "job_" in line else None
        for line in lines
        if "torque" not in line
    }
    assert {line: owner for line, owner in owners.items() if "torque" not in line} == expected
    assert {
        owner.id for owner in owners.values() if owner is not None and owner.kind == "slurm"
    } == {"10", "11", "4"}
    assert [owner for line, owner in owners.items() if line.endswith(".batch")] == [
        Owner("torque", "1182724.batch")
    ] * 3
    assert owners["/system.slice/slurmstepd.scope/system"] is None
