"""What Slurm's accounting tells of jobs: `sacct --json`, and `sacct -P` with its header. Pure.

Only the allocation of a job is read, not its steps; of its fields only those named here, so no
command line and no comment.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from agent.errors import AgentError
from agent.json_parts import part, parts
from agent.readings import Job
from agent.wire import MAX_COUNT, MAX_TIME_MS
from agent.workloads.slurm.lists import gpu_count
from agent.workloads.slurm.scontrol import (
    FINAL,
    digits,
    elapsed_s,
    epoch_ms,
    is_over,
    labels,
    text,
    whole,
    words,
)

MAX_JOBS = 2_000_000
DELIMITER = "|"
MIB_PER_GIB = 1024

_ID = re.compile(r"\d{1,18}")
_STEP = re.compile(r"[0-9_+\[\],%-]+\.\S+")
_NOT_YET = re.compile(r"\d+_\[")  # the tasks of an array that wait: no jobs of their own so far
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_NO_TIME = ("", "Unknown", "None", "N/A", "0")


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
                job = _with_restarts(job, before.restarts + 1)
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
        columns = [name.strip().lower() for name in lines[0].strip().split(DELIMITER)]
        if "state" not in columns or not {"jobid", "jobidraw"} & set(columns):
            raise HistoryError(
                "line 1: expected JSON, or a header with JobIDRaw (or JobID), State and others,"
                " parted by '|'"
            )
        for number, line in enumerate(lines[1:], start=2):
            if not line.strip():
                continue
            row = dict(zip(columns, _cells(line.rstrip("\r"), columns, number)))
            shown = row.get("jobid") or row.get("jobidraw") or ""
            if not _STEP.fullmatch(shown) and not _NOT_YET.match(shown):
                yield self._job_of_row(row, number), bool(row.get("restarts"))

    def _job_of_row(self, row: Mapping[str, str], number: int) -> Job:
        start_ms, end_ms = self._times(row, number)
        states = tuple(words(row["state"]))
        requested = row.get("reqtres", "")
        return _job(
            identity=_identity(row, number),
            cluster=text(row.get("cluster")) or self.cluster,
            states=states,
            name=text(row.get("jobname")),
            user=text(row.get("user")),
            account=text(row.get("account")),
            times=(
                self._moment(row, "submit", number),
                start_ms,
                end_ms if is_over(states) else None,
            ),
            restarts=min(whole(row.get("restarts")) or 0, MAX_COUNT),
            facts={
                **labels(
                    partition=text(row.get("partition")),
                    qos=text(row.get("qos")),
                    nodes=whole(row.get("nnodes")),
                    requested=requested,
                    time_limit_minutes=whole(row.get("timelimitraw")),
                    array=_parts(row.get("jobid", ""), "_"),
                    het=_parts(row.get("jobid", ""), "+"),
                ),
                **_outcome(row.get("alloctres", ""), row.get("exitcode", "")),
            },
        )

    def _times(self, row: Mapping[str, str], number: int) -> Tuple[Optional[int], Optional[int]]:
        """Start and end; an end that is not told follows from the time elapsed."""
        start_ms = self._moment(row, "start", number)
        end_ms = self._moment(row, "end", number)
        ran_s = elapsed_s(row.get("elapsed", ""))
        if end_ms is None and start_ms is not None and ran_s is not None:
            return start_ms, start_ms + ran_s * 1000
        # the hour that autumn repeats
        if end_ms is not None and start_ms is not None and end_ms < start_ms:
            return start_ms, max(start_ms, self._moment(row, "end", number, fold=1) or start_ms)
        return start_ms, end_ms

    def _moment(
        self, row: Mapping[str, str], column: str, number: int, *, fold: int = 0
    ) -> Optional[int]:
        """Milliseconds of the time in the column; it may be epoch seconds.

        None where there is none. Raises HistoryError.
        """
        value = row.get(column, "").strip()
        if value in _NO_TIME:
            return None
        try:
            if _ID.fullmatch(value):
                at_ms = int(value) * 1000
            elif _TIME.fullmatch(value):
                at_ms = round(
                    datetime.fromisoformat(value).replace(tzinfo=self.zone, fold=fold).timestamp()
                    * 1000
                )
            else:
                at_ms = -1
        except (ValueError, OverflowError):
            at_ms = -1
        if not 0 <= at_ms <= MAX_TIME_MS:
            raise HistoryError(
                "line %d: %s is %.40r, expected a time such as 2026-11-03T09:00:00"
                % (number, column, value)
            )
        return at_ms


def _job_of_json(job: Mapping[str, Any], cluster: str) -> Job:
    state = job.get("state")
    states = tuple(words(state.get("current") if isinstance(state, Mapping) else state))
    times = part(job, "time")
    moments = [epoch_ms(times.get(name)) for name in ("submission", "start", "end")]
    array = part(job, "array")
    het = part(job, "het")
    tres = part(job, "tres")
    return _job(
        identity=str(whole(job.get("job_id"))),
        cluster=text(job.get("cluster")) or cluster,
        states=states,
        name=text(job.get("name")),
        user=text(job.get("user")) or text(part(job, "association").get("user")),
        account=text(job.get("account")),
        times=(moments[0], moments[1], moments[2] if is_over(states) else None),
        restarts=min(whole(job.get("restart_cnt")) or 0, MAX_COUNT),
        facts={
            **labels(
                partition=text(job.get("partition")),
                qos=text(job.get("qos")),
                nodes=whole(job.get("allocation_nodes")),
                requested=_tres(parts(tres, "requested")),
                time_limit_minutes=whole(times.get("limit")),
                array=(digits(array.get("job_id")), digits(array.get("task_id"))),
                het=(digits(het.get("job_id")), digits(het.get("job_offset"))),
            ),
            **_outcome(_tres(parts(tres, "allocated")), _exit_code(part(job, "exit_code"))),
        },
    )


def _job(
    *,
    identity: str,
    cluster: str,
    states: Tuple[str, ...],
    name: str,
    user: str,
    account: str,
    times: Tuple[Optional[int], Optional[int], Optional[int]],
    restarts: int,
    facts: Mapping[str, str],
) -> Job:
    state = next((state for state in states if state in FINAL), states[0] if states else "")
    return Job(
        key="slurm/%s/%s" % (cluster, identity),
        scheduler="slurm",
        cluster=cluster,
        id=identity,
        name=name,
        user=user,
        account=account,
        state=state,
        submit_ms=times[0],
        start_ms=times[1],
        end_ms=times[2],
        restarts=restarts,
        labels=facts,
    )


def _with_restarts(job: Job, restarts: int) -> Job:
    return Job(**{**vars(job), "restarts": max(job.restarts, restarts)})


def _identity(row: Mapping[str, str], number: int) -> str:
    """The id by which the node's own agent knows the job: an array's task has one of its own,
    JobIDRaw.
    """
    shown = (row.get("jobidraw") or row.get("jobid") or "").strip()
    if _ID.fullmatch(shown):
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
        name = DELIMITER.join(cells[place : place + extra + 1])
        return [*cells[:place], name, *cells[place + extra + 1 :]]
    if extra != 0:
        raise HistoryError(
            "line %d has %d values for %d columns" % (number, len(cells), len(columns))
        )
    return cells


def _parts(shown: str, sign: str) -> Tuple[str, str]:
    first, sign_found, second = shown.strip().partition(sign)
    return (
        (first, second)
        if sign_found and _ID.fullmatch(first) and _ID.fullmatch(second)
        else ("", "")
    )


def _outcome(allocated: str, exit_code: str) -> Dict[str, str]:
    gpus = gpu_count(allocated)
    values = {
        "allocated_gpus": "" if gpus is None else str(gpus),
        "exit_code": "" if exit_code in ("0:0", "") else exit_code,
    }
    return {name: value for name, value in values.items() if value}


def _exit_code(value: Mapping[str, Any]) -> str:
    """As text shows it: status and signal, `1:0`."""
    signal = part(value, "signal")
    code = whole(value.get("return_code"))
    return (
        "%d:%d" % (code or 0, whole(signal.get("id", signal.get("signal_id"))) or 0)
        if code is not None or signal
        else ""
    )


def _tres(resources: Sequence[Mapping[str, Any]]) -> str:
    """A list of trackable resources as the text that shows them: `cpu=16,mem=64G,gres/gpu=2`."""
    shown_parts = []
    for item in resources:
        count = whole(item.get("count"))
        if count is None:
            continue
        kind = text(item.get("type"))
        name = text(item.get("name"))
        shown = _memory(count) if kind == "mem" else str(count)
        shown_parts.append("%s=%s" % ("/".join(word for word in (kind, name) if word), shown))
    return ",".join(shown_parts)


def _memory(mebibytes: int) -> str:
    whole_gib = mebibytes % MIB_PER_GIB == 0
    return "%dG" % (mebibytes // MIB_PER_GIB) if whole_gib else "%dM" % mebibytes
