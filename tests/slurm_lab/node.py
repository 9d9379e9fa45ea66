"""The lab's machine: process 1 of its own mount, host-name and process namespaces. `node.py LAB`
under unshare; see lab.py.

It makes /dev/nvidia0 to 3 and files of its own under /etc and /run, which nothing outside sees,
reaps whose parents are gone, and says each second to the fake driver who holds which GPU open. When
it ends, so does everything in here; it ends when its standard input does, so also with a test run
that is killed.
"""

import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

GPUS = 4
IDLE_MW, HELD_MW, BUSY_MW = 70_000, 120_000, 620_000
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_GPU = re.compile(r"/dev/nvidia(\d)$")


def main(lab: pathlib.Path) -> None:
    subprocess.run(["hostname", "lab"], check=True)
    terminals = [os.openpty() for _ in range(GPUS)]
    make_devices(lab / "dev", [os.ttyname(terminal) for _, terminal in terminals])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)
    pathlib.Path("/run/munge").mkdir()
    shutil.chown("/run/munge", "munge", "munge")
    subprocess.run(["mount", "--bind", lab / "slurm", "/etc/slurm"], check=True)
    for name in ("passwd", "group", "hosts"):
        subprocess.run(["mount", "--bind", lab / name, f"/etc/{name}"], check=True)
    (lab / "ready").write_text("")
    energy = [0.0] * GPUS
    before_s = time.monotonic()
    while not select.select([sys.stdin], [], [], 1)[0]:  # its other end is whoever started the lab
        reap()
        now_s = time.monotonic()
        tell_driver(lab / "nvml.state", holders(), energy, now_s - before_s)
        before_s = now_s


def make_devices(dev: pathlib.Path, terminals: list[str]) -> None:
    """A /dev with four GPUs: made in the host's own, they would be there for everybody.

    Each is a terminal: a character device that can be opened without NVIDIA's module, and whose
    number control groups tell from the others'.
    """
    dev.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dev], check=True)
    for name in DEVICES:
        subprocess.run(["cp", "-a", f"/dev/{name}", dev], check=True)
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        (dev / name).symlink_to(target)
    for number, terminal in enumerate(terminals):
        pathlib.Path(terminal).chmod(0o666)
        (dev / f"nvidia{number}").touch()
        subprocess.run(["mount", "--bind", terminal, dev / f"nvidia{number}"], check=True)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
        subprocess.run(["mount", "--bind", f"/dev/{name}", dev / name], check=True)
    subprocess.run(["mount", "--rbind", dev, "/dev"], check=True)


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def holders() -> list[list[tuple[int, bool]]]:
    """By minor number: the processes that hold the GPU open, and whether each computes (its second
    argument says so).
    """
    found: list[list[tuple[int, bool]]] = [[] for _ in range(GPUS)]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            links = [os.readlink(descriptor) for descriptor in (process / "fd").iterdir()]
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        for minor in {
            int(match.group(1))
            for link in links
            for match in [_GPU.match(link)]
            if match is not None
        }:
            found[minor].append((int(process.name), b"burn" in arguments))
    return found


def tell_driver(
    state: pathlib.Path, held: list[list[tuple[int, bool]]], energy: list[float], elapsed_s: float
) -> None:
    """PCI order is the reverse of the minor numbers, as on many boards."""
    lines = [f"count {GPUS}", "first 7700", "event_wait_ms 1000"]
    for index in range(GPUS):
        processes = held[GPUS - 1 - index]
        is_busy = any(computes for _, computes in processes)
        power = BUSY_MW if is_busy else HELD_MW if processes else IDLE_MW
        energy[index] += power * elapsed_s
        lines += [
            f"minor.{index} {GPUS - 1 - index}",
            f"power.{index} {power}",
            f"energy.{index} {int(energy[index])}",
            f"util.{index} {97 if is_busy else 0}",
            f"clock.{index} {1980 if processes else 345}",
            f"memory.{index} {sum(30 << 30 for _ in processes)}",
        ]
        if processes:
            lines.append(
                f"processes.{index} " + ",".join(f"{pid}:{30 << 30}" for pid, _ in processes)
            )
    more = state.with_suffix(".more")  # what a test says besides
    lines += more.read_text().splitlines() if more.exists() else []
    fresh = state.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n")
    shutil.move(fresh, state)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
