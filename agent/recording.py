"""The agent's own recordings: one JSON object per line, in the order things were read.

{"fleetwatch_recording": 1, "interval_ms": 1000}
{"gpus": [GPUInfo, …]}                       again when they change
{"uuid": "GPU-…", "reading": Reading}
{"end_ms": 1794000010000, "process_counts": {"GPU-…": 1}}      null: not read
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Sequence

from agent.reading import GPUInfo, Processes, Reading
from agent.sampler import Recorder

FORMAT = 1


class FileRecorder(Recorder):
    """Writes what it hears to a file, each line whole. Process names and ids stay on the host: only counts are kept."""

    def __init__(self, path: Path, *, interval_ms: int) -> None:
        self._file = open(path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115 - open as long as the agent
        self._write({"fleetwatch_recording": FORMAT, "interval_ms": interval_ms})

    def gpus(self, gpus: Sequence[GPUInfo]) -> None:
        """The GPUs there are."""
        self._write({"gpus": [asdict(gpu) for gpu in gpus]})

    def reading(self, uuid: str, reading: Reading) -> None:
        """One reading, without what was not read."""
        values = {name: value for name, value in asdict(reading).items() if value is not None and value not in ((), {})}
        self._write({"uuid": uuid, "reading": values})

    def processes(self, end_ms: int, processes: Processes) -> None:
        """How many processes each GPU had."""
        counts = {uuid: None if found is None else len(found) for uuid, found in processes.items()}
        self._write({"end_ms": end_ms, "process_counts": counts})

    def close(self) -> None:
        """Nothing is written afterwards."""
        self._file.close()

    def _write(self, line: Dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
