"""Who holds which GPU, from the files that Slurm's prolog writes and its epilog removes.

Two formats are common. jobstats': `/run/gpustat/<Slurm's index | UUID | MIG UUID>` holds "jobid
uid". The HPC mapping of dcgm-exporter: a folder of files `<the driver's index>` or `<index>.<GPU
instance>`, one job id per line.
"""

import os
import re
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from agent import procfs

GPUSTAT = "/run/gpustat"
# the first: the GPU operator's
DCGM_FOLDERS = ("/var/lib/dcgm-exporter/job-mapping", "/run/dcgm-exporter/job-mapping")
MAX_FILES = 512
MAX_BYTES = 4096
MAX_JOBS = 64  # on one GPU

_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/._-]{1,90}")


@dataclass(frozen=True)
class Claim:
    """One job on one GPU; exactly one of the first three says which GPU."""

    job_id: int
    uuid: str = ""
    slurm_index: Optional[int] = None
    driver_index: Optional[int] = None
    instance: Optional[int] = None  # the GPU instance of MIG, beside driver_index
    uid: Optional[int] = None
    written_ms: int = 0


class HPCFiles:
    """The files under both kinds of folders; a folder that is not there holds none."""

    def __init__(self, gpustat: str = GPUSTAT, dcgm: Sequence[str] = DCGM_FOLDERS) -> None:
        self._gpustat = gpustat
        self._dcgm = tuple(dcgm)

    def stamps(self) -> List[Tuple[str, int]]:
        """Each file's path and when it was written: cheaper than reading them."""
        return [
            (entry.path, procfs.written_ms(entry))
            for folder in (self._gpustat, *self._dcgm)
            for entry in _files(folder)
        ]

    def claims(self) -> List[Claim]:
        """Every claim, jobstats' first; where both folders name a GPU they agree, or the prolog is
        wrong.
        """
        claims = [claim for entry in _files(self._gpustat) for claim in _gpustat_claims(entry)]
        for folder in self._dcgm:
            claims += [claim for entry in _files(folder) for claim in _dcgm_claims(entry)]
        return claims


def _files(folder: str) -> "List[os.DirEntry[str]]":
    entries = procfs.entries(folder, MAX_FILES)
    files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    return sorted(files, key=lambda entry: entry.name)


def _gpustat_claims(entry: "os.DirEntry[str]") -> List[Claim]:
    job_id, uid, *_ = [*_read(entry).split(), "", ""]
    is_uuid = _UUID.fullmatch(entry.name) is not None
    if not _is_number(job_id) or not (is_uuid or _is_number(entry.name)):
        return []
    claim = Claim(
        int(job_id),
        uuid=entry.name if is_uuid else "",
        slurm_index=None if is_uuid else int(entry.name),
        uid=int(uid) if _is_number(uid) else None,
        written_ms=procfs.written_ms(entry),
    )
    return [claim]


def _dcgm_claims(entry: "os.DirEntry[str]") -> List[Claim]:
    index, dot, instance = entry.name.partition(".")
    if not _is_number(index) or (dot and not _is_number(instance)):
        return []
    ids = [int(word) for word in dict.fromkeys(_read(entry).split()[:MAX_JOBS]) if _is_number(word)]
    part = int(instance) if dot else None
    return [
        Claim(number, driver_index=int(index), instance=part, written_ms=procfs.written_ms(entry))
        for number in ids
    ]


def _read(entry: "os.DirEntry[str]") -> str:
    """The file's words; none where the epilog was faster."""
    return procfs.text(entry.path, limit=MAX_BYTES)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 10
