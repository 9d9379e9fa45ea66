"""What the agent costs the host: the daemon on a stub driver with 8 GPUs at 1 Hz, sending over TLS, beside Debian's node exporter.

Both run at the same time and are measured over the same seconds, because machines drift: only the ratios count.
`python -m benchmarks.bench_agent [SECONDS]`.
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
from fleetwatch.ingest import agent_package
from tests.stack.living import ROOT, free_port

GPUS = 8
FLUSH_S = 30
SLICE_S = 30  # CPU is told as the median of slices: one flush each
WARM_UP_S = 95  # the first batches have left, and the agent has given back what only the start needed
SECONDS = 120
SCRAPE_S = 10
DAY_S = 86_400
PEER = "prometheus-node-exporter"
MUST, AIM = (30.0, 0.2), (15.0, 0.05)  # MB of memory, % of a core


@dataclass
class Subject:
    """A process that is measured."""

    name: str
    process: "subprocess.Popen[bytes]"

    def cpu_s(self) -> float:
        """Its own CPU time to the nanosecond, and that of the children that ended (to 10 ms)."""
        children = [int(ticks) for ticks in self._stat()[13:15]]
        # the kernel's clock of a process: (~pid << 3) | CPUCLOCK_SCHED (include/linux/posix-timers_types.h)
        return time.clock_gettime((~self.process.pid) << 3 | 2) + sum(children) / os.sysconf("SC_CLK_TCK")

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
        found = [path.read_text().splitlines() for path in Path(f"/proc/{self.process.pid}/task").glob("*/status")]
        return sum(int(line.split()[1]) for lines in found for line in lines if "ctxt_switches" in line)

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
    subprocess.run(["cc", *options, "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)


def start_agent(command: list[str], hub: AcceptingHub, folder: Path, holders: "list[subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_COUNT": str(GPUS),
        "FAKE_PIDS": ",".join(str(holder.pid) for holder in holders),
        "FLEETWATCH_TOKEN": "fw_benchmark",
    }
    name = f"node-{hub.port}"
    arguments = ["--server", hub.url, "--ca-file", str(folder / "cert.pem"), "--node", name, "--flush-s", str(FLUSH_S), "--source", "nvml"]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*command, "run", *arguments, "--spool", str(folder / name)], cwd=ROOT, env=environment, stderr=log)


def measure(subjects: list[Subject], seconds: int) -> dict[str, dict[str, float]]:
    """By name: cpu (% of a core, median of slices), cpu_worst, threads, switches (per second), memory at the end."""
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


def run(folder: Path, seconds: int) -> None:
    stub_driver(folder)
    certificate(folder)
    (folder / "agent.pyz").write_bytes(agent_package.build())
    hubs = {"agent": AcceptingHub(folder), "agent .pyz": AcceptingHub(folder)}
    commands = {"agent": [sys.executable, "-m", "agent"], "agent .pyz": [sys.executable, str(folder / "agent.pyz")]}
    holders = [subprocess.Popen(["sleep", "3600"]) for _ in range(GPUS)]
    subjects = [Subject(name, start_agent(commands[name], hub, folder, holders)) for name, hub in hubs.items()]
    scraper = None
    if shutil.which(PEER):
        port = free_port()
        peer = subprocess.Popen([PEER, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
        subjects.append(Subject(PEER, peer))
        time.sleep(1)
        scraper = Scraper(port)
    try:
        time.sleep(WARM_UP_S)
        began, batches = carried(hubs, scraper), {name: hub.batches for name, hub in hubs.items()}
        found = measure(subjects, seconds)
        wire = {name: count - began[name] for name, count in carried(hubs, scraper).items()}
        show(found, {name: count * DAY_S / seconds for name, count in wire.items()})
        for name, hub in hubs.items():
            print(
                f"{name}: {hub.batches - batches[name]} batches of {hub.last_windows} windows, the last one {hub.last_bytes:,} bytes gzip"
            )
    finally:
        for subject in subjects:
            subject.process.send_signal(signal.SIGTERM)
            subject.process.wait(20)
        for holder in holders:
            holder.kill()
            holder.wait()
        if scraper:
            scraper.stop()
        for hub in hubs.values():
            hub.close()


def carried(hubs: dict[str, AcceptingHub], scraper: Scraper | None) -> dict[str, int]:
    """Bytes that went over the wire so far, by name."""
    return {name: hub.carried_bytes for name, hub in hubs.items()} | {PEER: scraper.carried_bytes if scraper else 0}


def show(found: dict[str, dict[str, float]], per_day: dict[str, float]) -> None:
    columns = ("RSS MB", "PSS MB", "private MB", "CPU %", "worst %", "threads", "switches/s", "MB/day", "kB/GPU-day")
    print(f"{'':<26}" + "".join(f"{name:>12}" for name in columns))
    for name, row in found.items():
        day = per_day[name]
        cells = (
            row["rss"],
            row["pss"],
            row["private"],
            row["cpu"],
            row["cpu_worst"],
            row["threads"],
            row["switches"],
            day / 1e6,
            day / GPUS / 1e3,
        )
        print(f"{name:<26}" + "".join(f"{cell:>12.3f}" if place in (3, 4) else f"{cell:>12.1f}" for place, cell in enumerate(cells)))
    print(f"must: <= {MUST[0]:.0f} MB and <= {MUST[1]} % of a core; aim: {AIM[0]:.0f} MB and {AIM[1]} %")
    if PEER not in found:
        print(f"{PEER} is not installed (apt-get install {PEER}): no peer in this run")
        return
    for name in (name for name in found if name != PEER):
        peer, own = found[PEER], found[name]
        print(
            f"{name} ÷ {PEER}: RSS {own['rss'] / peer['rss']:.2f}, CPU {own['cpu'] / peer['cpu']:.2f}, "
            f"bytes {per_day[name] / per_day[PEER]:.2f} (the exporter knows no GPU; it is scraped each {SCRAPE_S} s, as our windows are)"
        )


def main() -> None:
    if shutil.which("cc") is None:
        print("no C compiler (cc) to build the stub driver: nothing was measured")
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), max(SLICE_S, seconds))


if __name__ == "__main__":
    main()
