"""The monitoring databases beside which FleetWatch is measured: Debian's VictoriaMetrics and
Prometheus, on loopback and empty folders.

Settings are those that an expert would choose for exact answers: samples are looked back for less
than a window, not for five minutes, and no answer comes from a cache. A peer that is not installed
or does not start raises BenchError.
"""

import http.client
import json
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cpu
from benchmarks.servers import wait_for
from benchmarks.tables import BenchError
from tests.stack.living import free_port

# Prometheus 2 looks back over a closed interval: with 10 s each gap would count one window twice
LOOKBACK_S = 9


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave, and what it took."""

    result: Any
    clock_s: float
    cpu_s: float
    size: int  # bytes of JSON


@dataclass(frozen=True, slots=True)
class Peer:
    """A running database."""

    name: str
    version: str
    process: "subprocess.Popen[bytes]"
    port: int
    folder: Path
    write_path: str

    @property
    def is_ordered(self) -> bool:
        """Whether it refuses samples that are an hour older than its newest."""
        return self.name == "Prometheus"

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        return cpu.seconds(cpu.family(self.process.pid))

    def query(self, path: str, parameters: Mapping[str, str | float]) -> Answer:
        """The answer of a PromQL endpoint. Raises BenchError when it is refused."""
        before, began = self.cpu_s(), time.perf_counter()
        body = self._call("GET", f"{path}?{urllib.parse.urlencode(parameters)}")
        took = time.perf_counter() - began
        used = self.cpu_s() - before
        told = json.loads(body)
        if told.get("status") != "success":
            raise BenchError(f"{self.name} refused {parameters}: {body[:300]!r}")
        return Answer(told["data"]["result"], took, used, len(body))

    def disk_bytes(self) -> int:
        """Bytes of samples and index, everything flushed and merged."""
        if self.is_ordered:
            made = json.loads(self._call("POST", "/api/v1/admin/tsdb/snapshot"))
            folder = self.folder / "snapshots" / made["data"]["name"]
            size = _size(folder)
            shutil.rmtree(folder)
            return size
        self._call("GET", "/internal/force_flush")
        self._call("GET", "/internal/force_merge")
        return _settled(self.folder)

    def _call(self, method: str, target: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, target)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status >= 300:
            raise BenchError(
                f"{self.name} answered {answer.status} to {target[:200]}: {body[:300]!r}"
            )
        return body


@contextmanager
def running_peers() -> Iterator[list[Peer]]:
    """VictoriaMetrics and Prometheus, empty; stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fleetwatch-peers-", dir="/var/tmp"))
    started: list[Peer] = []
    try:
        started.append(_victoria_metrics(folder / "victoria"))
        started.append(_prometheus(folder / "prometheus"))
        for peer in started:
            wait_for(peer.port, "/-/ready" if peer.name == "Prometheus" else "/health")
        yield started
    finally:
        for peer in started:
            peer.process.terminate()
        for peer in started:
            peer.process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _victoria_metrics(folder: Path) -> Peer:
    port = free_port()
    arguments = [
        f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}", "-retentionPeriod=12",
        "-search.disableCache",
        f"-search.maxLookback={LOOKBACK_S}s", "-search.latencyOffset=0s",
        "-search.maxPointsPerTimeseries=100000", "-selfScrapeInterval=0",
        "-search.maxQueryDuration=300s", "-search.maxUniqueTimeseries=10000000",
        "-search.maxSamplesPerQuery=10000000000",
    ]  # fmt: skip
    return Peer(
        "VictoriaMetrics",
        _version("victoria-metrics"),
        _start("victoria-metrics", arguments, folder),
        port,
        folder,
        "/api/v1/write",
    )


def _prometheus(folder: Path) -> Peer:
    folder.mkdir(parents=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    port = free_port()
    arguments = [
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver", "--web.enable-admin-api",
        "--storage.tsdb.retention.time=1y",
        f"--query.lookback-delta={LOOKBACK_S}s", "--query.max-samples=2000000000",
        "--query.timeout=10m",
    ]  # fmt: skip
    return Peer(
        "Prometheus",
        _version("prometheus"),
        _start("prometheus", arguments, folder),
        port,
        folder,
        "/api/v1/write",
    )


def _start(name: str, arguments: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    if shutil.which(name) is None:
        raise BenchError(
            f"{name} is not installed: apt-get install {name} (a peer that is missing is no"
            " benchmark)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.log").open("wb") as log:
        return subprocess.Popen([name, *arguments], stdout=log, stderr=log, cwd=folder)


def _version(package: str) -> str:
    found = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _settled(folder: Path) -> int:
    """The folder's size once it has not changed for two seconds: merging goes on in the
    background.
    """
    before, unchanged = _size(folder), 0
    while unchanged < 4:
        time.sleep(0.5)
        size = _size(folder)
        unchanged = unchanged + 1 if size == before else 0
        before = size
    return before
