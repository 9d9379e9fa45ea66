"""What Slurm's accounting tells of jobs: `sacct --json`, and `sacct -P` with its header. Pure.

Only the allocation of a job is read, not its steps; of its fields only those named here, so no
command line and no comment.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from agent.errors import AgentError
from agent.json_parts import Object, part, parts
from agent.readings import Job
from agent.wire import MAX_TIME_MS
from agent.workloads.slurm.lists import gpu_count
from agent.workloads.slurm.scontrol import FINAL, elapsed_s, record_of, text, whole, words

MAX_JOBS = 2_000_000
DELIMITER = "|"
MIB_PER_GIB = 1024

_ID = re.compile(r"\d{1,18}")
_STEP = re.compile(r"[0-9_+\[\],%-]+\.\S+")
_NOT_YET = re.compile(r"\d+_\[")  # the tasks of an array that wait: no jobs of their own so far
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_NO_TIME = ("", "Unknown", "None", "N/A", "0")
# scontrol's name of what a column tells
_COLUMNS = {
    "name": "jobname",
    "user_name": "user",
    "account": "account",
    "restart_cnt": "restarts",
    "partition": "partition",
    "qos": "qos",
    "node_count": "nnodes",
    "tres_req_str": "reqtres",
    "time_limit": "timelimitraw",
}
# and of what stands in JSON's groups
_IN_GROUPS = {
    "submit_time": ("time", "submission"),
    "start_time": ("time", "start"),
    "end_time": ("time", "end"),
    "time_limit": ("time", "limit"),
    "array_job_id": ("array", "job_id"),
    "array_task_id": ("array", "task_id"),
    "het_job_id": ("het", "job_id"),
    "het_job_offset": ("het", "job_offset"),
}


class HistoryError(AgentError):
    """The text is no accounting of Slurm; the message says what is wrong, and in which line
    or job.
    """


@dataclass(frozen=True)
class Reader:
    """How a file is read: its jobs' cluster where it names none, the zone of its times where it is
    text.
    """

    cluster: str
    zone: tzinfo

    def jobs(self, content: str) -> List[Job]:
        """The jobs, in the file's order; of a job that was requeued its last run.

        Raises HistoryError.
        """
        by_key: Dict[str, Job] = {}
        for job, is_told in (
            self._json(content) if content.lstrip()[:1] in ("{", "[") else self._table(content)
        ):
            before = by_key.pop(job.key, None)
            if before is not None and not is_told:  # sacct -D: one row per run
                job = replace(job, restarts=max(job.restarts, before.restarts + 1))
            by_key[job.key] = job
            if len(by_key) > MAX_JOBS:
                raise HistoryError("more than %d jobs: give it in parts" % MAX_JOBS)
        return list(by_key.values())

    def _json(self, content: str) -> Iterator[Tuple[Job, bool]]:
        """Each job of `sacct --json`, of every data_parser, and whether it tells its restarts."""
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            place = "line %d: " % error.lineno if isinstance(error, json.JSONDecodeError) else ""
            raise HistoryError("%sno JSON: %s" % (place, getattr(error, "msg", error))) from error
        jobs = answer.get("jobs") if isinstance(answer, dict) else None
        if not isinstance(jobs, list):
            raise HistoryError(
                "line 1: JSON without a list of jobs, expected the output of sacct --json"
            )
        for count, job in enumerate(jobs, start=1):
            if not isinstance(job, dict) or not whole(job.get("job_id")):
                raise HistoryError("job %d of the list has no job_id" % count)
            yield _job_of_json(job, self.cluster), job.get("restart_cnt") is not None

    def _table(self, content: str) -> Iterator[Tuple[Job, bool]]:
        """Each allocation of `sacct -P`, whatever the order of its columns, and whether it tells
        its restarts.
        """
        lines = content.split("\n")
        columns = _columns(lines[0])
        for number, line in enumerate(lines[1:], start=2):
            if not line.strip():
                continue
            row = dict(zip(columns, _cells(line.rstrip("\r"), columns, number)))
            shown = row.get("jobid") or row.get("jobidraw") or ""
            if not _STEP.fullmatch(shown) and not _NOT_YET.match(shown):
                yield self._job_of_row(row, number), bool(row.get("restarts"))

    def _job_of_row(self, row: Mapping[str, str], number: int) -> Job:
        start_s, end_s = self._times(row, number)
        job = {
            **{name: row.get(column) for name, column in _COLUMNS.items()},
            **_place_in_group(row.get("jobid", "")),
            "job_id": _identity(row, number),
            "submit_time": self._moment_s(row, "submit", number),
            "start_time": start_s,
            "end_time": end_s,
        }
        outcome = _outcome(row.get("alloctres", ""), row.get("exitcode", ""))
        return _job(job, row["state"], text(row.get("cluster")) or self.cluster, outcome)

    def _times(self, row: Mapping[str, str], number: int) -> Tuple[Optional[int], Optional[int]]:
        """Start and end; an end that is not told follows from the time elapsed."""
        start_s = self._moment_s(row, "start", number)
        end_s = self._moment_s(row, "end", number)
        if start_s is None:
            return None, end_s
        ran_s = elapsed_s(row.get("elapsed", ""))
        if end_s is None:
            return start_s, None if ran_s is None else start_s + ran_s
        if end_s < start_s:  # the hour that autumn repeats
            end_s = max(start_s, self._moment_s(row, "end", number, fold=1) or start_s)
        return start_s, end_s

    def _moment_s(
        self, row: Mapping[str, str], column: str, number: int, *, fold: int = 0
    ) -> Optional[int]:
        """Seconds of the time in the column; it may be epoch seconds.

        None where there is none. Raises HistoryError.
        """
        value = row.get(column, "").strip()
        if value in _NO_TIME:
            return None
        at_s = -1
        try:
            if _ID.fullmatch(value):
                at_s = int(value)
            elif _TIME.fullmatch(value):
                moment = datetime.fromisoformat(value).replace(tzinfo=self.zone, fold=fold)
                at_s = round(moment.timestamp())
        except (ValueError, OverflowError):
            pass
        if not 0 <= at_s <= MAX_TIME_MS // 1000:
            raise HistoryError(
                "line %d: %s is %.40r, expected a time such as 2026-11-03T09:00:00"
                % (number, column, value)
            )
        return at_s


def _job_of_json(job: Object, cluster: str) -> Job:
    state = job.get("state")
    tres = part(job, "tres")
    as_scontrol = {
        **job,
        **{name: part(job, group).get(key) for name, (group, key) in _IN_GROUPS.items()},
        "user_name": text(job.get("user")) or part(job, "association").get("user"),
        "node_count": job.get("allocation_nodes"),
        "tres_req_str": _tres(parts(tres, "requested")),
    }
    return _job(
        as_scontrol,
        state.get("current") if isinstance(state, Mapping) else state,
        text(job.get("cluster")) or cluster,
        _outcome(_tres(parts(tres, "allocated")), _exit_code(part(job, "exit_code"))),
    )


def _job(job: Object, state: Any, cluster: str, outcome: Mapping[str, str]) -> Job:
    """The job of the fields that scontrol's JSON has; of several states the final one counts."""
    states = words(state)
    final = [word for word in states if word in FINAL]
    record = record_of({**job, "job_state": (final or states)[:1]})
    return replace(record, labels={**record.labels, **outcome}).job(cluster)


def _columns(header: str) -> List[str]:
    """Raises HistoryError where it is no header of sacct."""
    columns = [name.strip().lower() for name in header.strip().split(DELIMITER)]
    if "state" not in columns or not {"jobid", "jobidraw"} & set(columns):
        raise HistoryError(
            "line 1: expected JSON, or a header with JobIDRaw (or JobID), State and others,"
            " parted by '|'"
        )
    return columns


def _identity(row: Mapping[str, str], number: int) -> str:
    """The id by which the node's own agent knows the job: an array's task has one of its own,
    JobIDRaw.
    """
    shown = (row.get("jobidraw") or row.get("jobid") or "").strip()
    if _ID.fullmatch(shown) and whole(shown):
        return shown
    if re.fullmatch(r"\d+[_+]\d+", shown):
        raise HistoryError(
            "line %d: job %s is part of an array or heterogeneous job: export the column"
            " JobIDRaw too" % (number, shown)
        )
    raise HistoryError("line %d: %.40r is no job id" % (number, shown))


def _cells(line: str, columns: List[str], number: int) -> List[str]:
    """The row's values; more of them than columns means that the job's name holds the delimiter.

    Raises HistoryError.
    """
    cells = line.split(DELIMITER)
    if cells[-1] == "" and len(cells) == len(columns) + 1:  # sacct -p ends each line with one
        cells.pop()
    extra = len(cells) - len(columns)
    if extra > 0 and "jobname" in columns:
        place = columns.index("jobname")
        of_name = slice(place, place + extra + 1)
        cells[of_name] = [DELIMITER.join(cells[of_name])]
    elif extra != 0:
        raise HistoryError(
            "line %d has %d values for %d columns" % (number, len(cells), len(columns))
        )
    return cells


def _place_in_group(shown: str) -> Dict[str, str]:
    """Of an array's task, 7_1, and of a heterogeneous job's part, 7+1, its numbers."""
    match = re.fullmatch(r"(\d{1,18})([_+])(\d{1,18})", shown.strip())
    if match is None:
        return {}
    number, sign, place = match.groups()
    if sign == "_":
        return {"array_job_id": number, "array_task_id": place}
    return {"het_job_id": number, "het_job_offset": place}


def _outcome(allocated: str, exit_code: str) -> Dict[str, str]:
    """Labels of how the job ended."""
    gpus = gpu_count(allocated)
    outcome = {} if gpus is None else {"allocated_gpus": str(gpus)}
    return outcome if exit_code in ("0:0", "") else {**outcome, "exit_code": exit_code}


def _exit_code(value: Object) -> str:
    """As text shows it: status and signal, `1:0`."""
    signal = part(value, "signal")
    code = whole(value.get("return_code"))
    if code is None and not signal:
        return ""
    return "%d:%d" % (code or 0, whole(signal.get("id", signal.get("signal_id"))) or 0)


def _tres(resources: Sequence[Object]) -> str:
    """A list of trackable resources as the text that shows them: `cpu=16,mem=64G,gres/gpu=2`."""
    shown_parts = []
    for item in resources:
        count = whole(item.get("count"))
        if count is None:
            continue
        kind = text(item.get("type"))
        name = text(item.get("name"))
        shown = str(count)
        if kind == "mem":
            gib, rest = divmod(count, MIB_PER_GIB)
            shown = "%dM" % count if rest else "%dG" % gib
        shown_parts.append("%s=%s" % ("/".join(word for word in (kind, name) if word), shown))
    return ",".join(shown_parts)
