"""`history`: what Slurm's accounting tells of jobs, sent once: how they ended and what they had
asked for.

Batches without windows, for no GPU. Their identity derives from the file's content, so importing
twice changes nothing.
"""

import hashlib
import sys
from pathlib import Path
from typing import Sequence

from agent import __version__, batch, replay, wire
from agent.config import Config
from agent.readings import Job, Workload
from agent.replay import ReplayError
from agent.sending.enrolment import EnrollingSender
from agent.sending.sender import Send
from agent.sending.spool import Identity
from agent.sources.recorded_logs import zone
from agent.workloads.slurm.sacct import HistoryError, Reader

JOBS_PER_BATCH = 2000  # about 1 MB of JSON
MAX_BYTES = 512 * 1024 * 1024
WINDOW_S = 10  # the wire wants one; there are no windows
# an import is older than every boot: whatever a living agent says of the node is newer
BOOT_START_MS = 0
STANDARD_INPUT = Path("-")
# an enrolment token is not exchanged: who imports is no node, and its use is for one
MAY_NOT_IMPORT = (
    "the hub does not take this token for an import: it needs one with the right to import (an"
    " enrolment token has none), made by manage.py create_agent_token --import NODE, or in"
    " Settings, Agents"
)


def send(chosen: Config) -> int:
    """Sends every file; a line on standard output for each. Raises HistoryError, ReplayError."""
    deliver = EnrollingSender(chosen, may_enrol=False).send
    for path in chosen.files:
        count = import_file(path, chosen, deliver)
        sys.stdout.write("%s: %d jobs, all at the hub\n" % (path, count))
        sys.stdout.flush()
    return 0


def import_file(path: Path, chosen: Config, deliver: Send) -> int:
    """How many jobs of the file the hub has now.

    Raises HistoryError for the file and ReplayError for the hub.
    """
    content = _content(path)
    try:
        jobs = Reader(chosen.cluster or "default", zone(chosen.zone)).jobs(
            content.decode("utf-8", "replace")
        )
    except HistoryError as error:
        raise HistoryError("%s: %s" % (path, error)) from None
    identity = Identity(_boot_id(content, chosen), BOOT_START_MS)
    sender = batch.Sender(chosen.node, identity.boot_id, identity.boot_start_ms, WINDOW_S)
    parts = (jobs[start : start + JOBS_PER_BATCH] for start in range(0, len(jobs), JOBS_PER_BATCH))
    try:
        for _ in replay.deliver((_batch(part, sender) for part in parts), identity, deliver):
            pass
    except ReplayError as error:
        if error.status == 401:
            raise ReplayError(MAY_NOT_IMPORT) from None
        raise
    return len(jobs)


def _batch(jobs: Sequence[Job], sender: batch.Sender) -> wire.Batch:
    return batch.build(
        [batch.ClosedWindow(0, (), Workload(jobs=jobs))],
        sender=sender,
        gpus=[],
        agent={"version": __version__, "source": "history"},
        events=[],
    )


def _content(path: Path) -> bytes:
    """The whole file; `-` is standard input. Raises HistoryError."""
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise HistoryError("%s can't be read: %s" % (path, error.strerror)) from error
    if len(content) > MAX_BYTES:
        raise HistoryError(
            "%s is larger than %d MiB: give it in parts" % (path, MAX_BYTES // 1024 // 1024)
        )
    if not content.strip():
        raise HistoryError("%s is empty, expected the output of sacct --json or sacct -P" % path)
    return content


def _boot_id(content: bytes, chosen: Config) -> str:
    """Another file, or another reading of it, is another life of a spool: its batches are not
    duplicates.
    """
    identity = (hashlib.sha256(content).hexdigest(), chosen.cluster, chosen.zone)
    return "history-" + hashlib.sha256(repr(identity).encode()).hexdigest()[:32]
