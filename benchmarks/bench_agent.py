"""What the agent costs the host: the daemon on a stub driver with 8 GPUs at 1 Hz, sending over TLS,
beside Debian's node exporter.

All run at the same time and are measured over the same seconds, because machines drift.
"""

import http.client
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accepting_hub import AcceptingHub, certificate, transferred_bytes
from benchmarks.apart import until_alone
from benchmarks.tables import BenchError, Goal, Size, Table
from fleetwatch.ingest import agent_package
from tests.stack.living import ROOT, free_port

GPUS = 8
FLUSH_S = 30
SLICE_S = 30  # CPU is told as the median of slices: one flush each
# the first batches have left, and the agent has given back what only the start needed
# (agent.daemon.SETTLE_S)
WARM_UP_S = 80
SECONDS = {Size.QUICK: 30, Size.FULL: 120}
SCRAPE_S = 10
DAY_S = 86_400
PEER = "prometheus-node-exporter"
MUST, AIM = (22.0, 0.1), (15.0, 0.05)  # MB of memory, % of a core


@dataclass
class Subject:
    """A process that is measured."""

    name: str
    process: "subprocess.Popen[bytes]"

    def cpu_s(self) -> float:
        """Its own CPU time to the nanosecond, and that of the children that ended (to 10 ms)."""
        children = [int(ticks) for ticks in self._stat()[13:15]]
        # the kernel's clock of a process: (~pid << 3) | CPUCLOCK_SCHED
        # (include/linux/posix-timers_types.h)
        return time.clock_gettime((~self.process.pid) << 3 | 2) + sum(children) / os.sysconf(
            "SC_CLK_TCK"
        )

    def memory_mb(self) -> dict[str, float]:
        """Rss, Pss and private memory; a MB is 10^6 bytes."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()[1:]
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return {
            "rss": kib["Rss"] * 1.024e-3,
            "pss": kib["Pss"] * 1.024e-3,
            "private": (kib["Private_Clean"] + kib["Private_Dirty"]) * 1.024e-3,
        }

    def threads(self) -> int:
        return int(self._stat()[17])

    def switches(self) -> int:
        """Context switches of all its threads, wanted and unwanted."""
        found = [
            path.read_text().splitlines()
            for path in Path(f"/proc/{self.process.pid}/task").glob("*/status")
        ]
        return sum(
            int(line.split()[1]) for lines in found for line in lines if "ctxt_switches" in line
        )

    def _stat(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()


class Scraper:
    """Prometheus' part: asks the exporter each 10 s over one kept connection, compressed."""

    def __init__(self, port: int) -> None:
        self._port, self._stop, self.carried_bytes = port, threading.Event(), 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        while not self._stop.wait(SCRAPE_S):
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
            connection.getresponse().read()
            self.carried_bytes = transferred_bytes(connection.sock)

    def stop(self) -> None:
        self._stop.set()


def stub_driver(folder: Path) -> None:
    """libnvidia-ml.so.1 that answers from the clock."""
    source = Path(__file__).parent / "live_nvml.c"
    options = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(
        ["cc", *options, "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True
    )


def start_agent(
    command: list[str], hub: AcceptingHub, folder: Path, holders: "list[subprocess.Popen[bytes]]"
) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_COUNT": str(GPUS),
        "FAKE_PIDS": ",".join(str(holder.pid) for holder in holders),
        "FLEETWATCH_TOKEN": "fw_benchmark",
    }
    name = f"node-{hub.port}"
    arguments = [
        "--server",
        hub.url,
        "--ca-file",
        str(folder / "cert.pem"),
        "--node",
        name,
        "--flush-s",
        str(FLUSH_S),
        "--source",
        "nvml",
    ]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "run", *arguments, "--spool", str(folder / name)],
            cwd=ROOT,
            env=environment,
            stderr=log,
        )


def measure(subjects: list[Subject], seconds: int) -> dict[str, dict[str, float]]:
    """By name: cpu (% of a core, median of slices), cpu_worst, threads, switches (per second),
    memory at the end.
    """
    cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    switches = {subject.name: subject.switches() for subject in subjects}
    for _ in range(seconds // SLICE_S):
        before = [(subject, subject.cpu_s(), time.monotonic()) for subject in subjects]
        time.sleep(SLICE_S)
        for subject, cpu_s, began in before:
            cpu[subject.name].append(100 * (subject.cpu_s() - cpu_s) / (time.monotonic() - began))
    return {
        subject.name: {
            "cpu": statistics.median(cpu[subject.name]),
            "cpu_worst": max(cpu[subject.name]),
            "threads": subject.threads(),
            "switches": (subject.switches() - switches[subject.name]) / seconds,
            **subject.memory_mb(),
        }
        for subject in subjects
    }


def run(size: Size) -> list[Table]:
    """What the agent costs its host: 8 GPUs at 1 Hz on a stub driver, sending over TLS, beside
    Debian's node exporter.
    """
    for program, why in (
        ("cc", "builds the stub driver"),
        (PEER, "is the peer: apt-get install " + PEER),
    ):
        if shutil.which(program) is None:
            raise BenchError(f"{program} is not installed; it {why}")
    with tempfile.TemporaryDirectory() as folder:
        return [measured_beside(Path(folder), SECONDS[size])]


def measured_beside(folder: Path, seconds: int) -> Table:
    stub_driver(folder)
    certificate(folder)
    (folder / "agent.pyz").write_bytes(agent_package.build())
    hubs = {"agent": AcceptingHub(folder), "agent .pyz": AcceptingHub(folder)}
    commands = {
        "agent": [sys.executable, "-m", "agent"],
        "agent .pyz": [sys.executable, str(folder / "agent.pyz")],
    }
    holders = [subprocess.Popen(["sleep", str(DAY_S)]) for _ in range(GPUS)]
    subjects = [
        Subject(name, start_agent(commands[name], hub, folder, holders))
        for name, hub in hubs.items()
    ]
    port = free_port()
    peer = subprocess.Popen(
        [PEER, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL
    )
    subjects.append(Subject(PEER, peer))
    time.sleep(1)
    scraper = Scraper(port)
    try:
        time.sleep(WARM_UP_S)
        until_alone()
        began, batches = carried(hubs, scraper), {name: hub.batches for name, hub in hubs.items()}
        found = measure(subjects, seconds)
        wire = {name: count - began[name] for name, count in carried(hubs, scraper).items()}
        sent = [
            f"{name}: {hub.batches - batches[name]} batches of {hub.last_windows} windows, the last"
            f" one {hub.last_bytes:,} bytes gzip"
            for name, hub in hubs.items()
        ]
        return table(
            found, {name: count * DAY_S / seconds for name, count in wire.items()}, sent, seconds
        )
    finally:
        for subject in subjects:
            subject.process.send_signal(signal.SIGTERM)
            subject.process.wait(20)
        for holder in holders:
            holder.kill()
            holder.wait()
        scraper.stop()
        for hub in hubs.values():
            hub.close()


def carried(hubs: dict[str, AcceptingHub], scraper: Scraper) -> dict[str, int]:
    """Bytes that went over the wire so far, by name."""
    return {name: hub.carried_bytes for name, hub in hubs.items()} | {PEER: scraper.carried_bytes}


def table(
    found: dict[str, dict[str, float]], per_day: dict[str, float], sent: list[str], seconds: int
) -> Table:
    columns = (
        "",
        "RSS MB",
        "PSS MB",
        "private MB",
        "CPU %",
        "worst CPU %",
        "threads",
        "switches/s",
        "MB/day",
        "kB/GPU-day",
    )
    rows = [
        [
            name,
            *(f"{row[part]:.1f}" for part in ("rss", "pss", "private")),
            *(f"{row[part]:.3f}" for part in ("cpu", "cpu_worst")),
            *(f"{row[part]:.1f}" for part in ("threads", "switches")),
            f"{per_day[name] / 1e6:.1f}",
            f"{per_day[name] / GPUS / 1e3:.1f}",
        ]
        for name, row in found.items()
    ]
    notes = (
        (
            f"over {seconds} s in slices of {SLICE_S} s, after {WARM_UP_S} s of warming up and"
            " more; CPU is of one core, the median slice"
        ),
        f"the exporter knows no GPU; it is scraped each {SCRAPE_S} s, as our windows are",
        *sent,
    )
    where = f"{GPUS} GPUs at 1 Hz, stub driver"
    goals = (
        Goal("agent, memory", found["agent"]["rss"], MUST[0], AIM[0], "MB RSS", where=where),
        Goal("agent, CPU", found["agent"]["cpu"], MUST[1], AIM[1], "% of a core", where=where),
    )
    return Table("The agent on its host", columns, rows, notes, goals)
