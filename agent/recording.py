"""The agent's own recordings: one JSON object per line, in the order things were read.

{"fleetwatch_recording": 1, "interval_ms": 1000}
{"gpus": [GPUInfo, …]}                       again when they change
{"uuid": "GPU-…", "reading": Reading}
{"end_ms": 1794000010000, "process_counts": {"GPU-…": 1}}      null: not read
"""

import errno
import json
import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Dict, Optional

from agent.readings import GPUs, Processes, Reading
from agent.sampler import Recorder

log = logging.getLogger("agent.recording")

FORMAT = 1


class FileRecorder(Recorder):
    """Writes what it hears to a file, each line whole.

    Process names and ids stay on the host: only counts are kept.
    """

    def __init__(self, path: Path, *, interval_ms: int) -> None:
        # appended: a daemon that starts anew after a driver's upgrade goes on with its recording
        self._file: Optional[IO[bytes]] = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the agent
        if self._file.tell() == 0:
            self._write({"fleetwatch_recording": FORMAT, "interval_ms": interval_ms})

    def gpus(self, gpus: GPUs) -> None:
        """The GPUs there are."""
        self._write({"gpus": [asdict(gpu) for gpu in gpus]})

    def reading(self, uuid: str, reading: Reading) -> None:
        """One reading, without what was not read."""
        values = {
            name: value
            for name, value in asdict(reading).items()
            if value is not None and value not in ((), {})
        }
        self._write({"uuid": uuid, "reading": values})

    def processes(self, end_ms: int, processes: Processes) -> None:
        """How many processes each GPU had."""
        counts = {
            uuid: None if listed is None else len(listed) for uuid, listed in processes.items()
        }
        self._write({"end_ms": end_ms, "process_counts": counts})

    def close(self) -> None:
        """Nothing is written afterwards."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: Dict[str, Any]) -> None:
        if self._file is None:
            return
        content = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        end = self._file.tell()
        try:
            if self._file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            log.error(
                "the recording ends here, it can't be written file=%s: %s",
                self._file.name,
                error.strerror or error,
            )
            self._cut(end)

    def _cut(self, end: int) -> None:
        """Ends the file with its last whole line."""
        try:
            if self._file is not None:
                self._file.truncate(end)
        except OSError as error:
            log.debug("the recording keeps half a line: %s", error)
        self.close()
