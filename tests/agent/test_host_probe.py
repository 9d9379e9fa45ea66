import os
import socket

import pytest

from agent.check import host_probe
from agent.check.host_probe import (
    INITIAL_PID_NAMESPACE,
    look_at_host,
    look_for_driver,
    look_for_schedulers,
)

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def states(findings):
    return {finding.name: finding.state for finding in findings}


def host(tmp_path, **changes):
    return look_at_host(
        tmp_path / "spool", **{"proc": tmp_path / "proc", "root": tmp_path, **changes}
    )


def test_a_host_that_shows_everything_is_well(tmp_path):
    write(tmp_path / "proc/1/cgroup", "0::/init.scope\n")
    write(tmp_path / "proc/1/environ", "A=b")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(INITIAL_PID_NAMESPACE)

    found = states(host(tmp_path))

    assert found == {
        "processes": "ok",
        "job environment": "ok",
        "pid namespace": "ok",
        "kernel log": "warn",
        "spool": "ok",
    }


def test_what_is_hidden_comes_with_what_to_do(tmp_path):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532000]")

    found = {finding.name: (finding.state, finding.advice) for finding in host(tmp_path)}

    assert found["processes"][0] == "no"
    assert "CAP_SYS_PTRACE" in found["job environment"][1]
    assert found["pid namespace"] == ("warn", "hostPID: true in Kubernetes, --pid=host in Docker")
    assert "CAP_SYSLOG" in found["kernel log"][1]


def test_a_spool_folder_that_is_a_file_is_said(tmp_path):
    write(tmp_path / "spool")

    assert states(host(tmp_path))["spool"] == "no"


def test_a_spool_folder_that_is_not_there_yet_will_be_made(tmp_path):
    (spool,) = [finding for finding in host(tmp_path) if finding.name == "spool"]

    assert spool.state == "ok"
    assert "spool will be made" in spool.text
    assert not (tmp_path / "spool").exists()


def test_little_space_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(host_probe, "LOW_SPACE_BYTES", 2**63)

    assert states(host(tmp_path))["spool"] == "warn"


@needs_user
def test_a_spool_folder_that_is_not_ours_is_said(tmp_path):
    (tmp_path / "spool").mkdir(mode=0o500)

    assert states(host(tmp_path))["spool"] == "no"


def test_schedulers_that_are_not_here_are_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert states(look_for_schedulers(tmp_path)) == {"slurm": "-", "kubernetes": "-", "docker": "-"}


def test_a_scheduler_that_is_here_can_be_asked(tmp_path, monkeypatch):
    command = write(tmp_path / "squeue", "#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "var/run").mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind("var/run/docker.sock")

    found = states(look_for_schedulers(tmp_path))

    server.close()
    assert found == {"slurm": "ok", "kubernetes": "-", "docker": "ok"}


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_a_socket_that_may_not_be_asked_is_said_with_what_to_do(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user who is not in the group
    write(tmp_path / host_probe.DOCKER)
    write(tmp_path / host_probe.KUBELET)

    (found,) = [finding for finding in look_for_schedulers(tmp_path) if finding.name == kind]

    assert (found.state, "no permission for" in found.text) == ("no", True)
    assert {"docker": "usermod -aG docker", "kubernetes": "DaemonSet"}[kind] in found.advice


def pci(root, place, vendor="0x10de", kind="0x030200"):
    write(root / "sys/bus/pci/devices" / place / "vendor", vendor + "\n")
    write(root / "sys/bus/pci/devices" / place / "class", kind + "\n")


def test_no_gpu_at_all_is_told_from_a_gpu_without_a_driver(tmp_path):
    pci(tmp_path, "0000:00:01.0", vendor="0x8086")
    pci(tmp_path, "0000:01:00.1", kind="0x040300")  # a card's sound
    assert look_for_driver(tmp_path).text == "no NVIDIA GPU on the PCI bus, and no driver is loaded"

    pci(tmp_path, "0000:01:00.0")
    pci(tmp_path, "0000:02:00.0", kind="0x030000")

    found = look_for_driver(tmp_path)
    assert (found.text, found.advice) == (
        "2 NVIDIA GPUs on the PCI bus, but no driver is loaded",
        "install the driver, or modprobe nvidia",
    )


def test_a_driver_without_its_devices_is_a_container_s_trouble(tmp_path):
    write(
        tmp_path / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\nGCC\n",
    )
    assert "--gpus all" in look_for_driver(tmp_path).advice

    write(tmp_path / "dev/nvidiactl")

    assert look_for_driver(tmp_path).text == "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1"
    assert "libnvidia-ml.so.1" in look_for_driver(tmp_path).advice
