"""Jobs and nodes as scontrol describes them, in JSON of every data_parser and in text. Pure.

Only fields of a fixed list are read: never the command, the comments, the environment or paths,
which hold secrets.
"""

import calendar
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from agent.json_parts import Object, part, parts
from agent.readings import Job
from agent.wire import MAX_COUNT
from agent.workloads.slurm.lists import gpu_count, grants, hosts

HOLDING = frozenset(("RUNNING", "SUSPENDED"))  # a suspended job gives back its cores, not its GPUs
HOLDING_FLAGS = frozenset(
    ("COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
# Flags that stand beside a state; what is left is the state itself.
FLAGS = HOLDING_FLAGS | frozenset(
    (
        "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED",
        "REQUEUE_HOLD", "RESV_DEL_HOLD", "REVOKED", "SPECIAL_EXIT", "UPDATE_DB", "EXPEDITING",
    )
)  # fmt: skip
FINAL = frozenset(
    (
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL",
        "OUT_OF_MEMORY", "PREEMPTED",
        "REVOKED", "TIMEOUT",
    )
)  # fmt: skip
OUT_OF_SERVICE = frozenset(
    ("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "MAINT", "MAINTENANCE")
)
DRAINS = frozenset(("DRAIN", "DRAINED", "DRAINING"))
NO_VALUE = 0xFFFFFFFE  # NO_VAL; one more is INFINITE

_NUMBER = re.compile(r"\d{1,18}")  # NumNodes=2-4 while it waits
_NODE_STATE_MARKS = "*~#!%$@^-+"
_ABSENT = ("", "(null)", "N/A", "None", "Unknown", "NONE")
_GROUP = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S*(?: GRES=(\S*))?")
_RECORD_HEAD = re.compile(r"JobId=(\d+) (?:(?!JobName=)\S+ )*JobName=")
_AFTER_REASON = re.compile(r" (?:Comment|Extra|ResumeAfterTime|InstanceId|Topology)=")
_SIGNED = re.compile(r" \[[^\[\]]*@[^\[\]]*\]$")  # who gave a reason, and when


Fields = Mapping[str, str]


@dataclass(frozen=True)
class Record:
    """A job; `gres` is what it holds on this node as Slurm writes it, None where it has no part of
    this node.
    """

    id: int
    name: str = ""
    user: str = ""
    account: str = ""
    states: Tuple[str, ...] = ()
    is_batch: bool = True
    is_exclusive: bool = False
    submit_ms: Optional[int] = None
    start_ms: Optional[int] = None
    end_ms: Optional[int] = None
    restarts: int = 0
    gres: Optional[str] = None
    sluid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state, without the flags beside it; COMPLETING while the job is being ended."""
        if "COMPLETING" in self.states:
            return "COMPLETING"
        return next(
            (state for state in self.states if state not in FLAGS),
            self.states[0] if self.states else "",
        )

    @property
    def is_holding(self) -> bool:
        """Whether the job holds its nodes: it runs, is suspended, or is being started or ended."""
        return not (HOLDING | HOLDING_FLAGS).isdisjoint(self.states)

    def job(self, cluster: str) -> Job:
        """The job as the wire names it."""
        return Job(
            key="slurm/%s/%d" % (cluster, self.id),
            scheduler="slurm",
            cluster=cluster,
            id=str(self.id),
            name=self.name,
            user=self.user,
            account=self.account,
            kind="batch" if self.is_batch else "interactive",
            state=self.state,
            submit_ms=self.submit_ms,
            start_ms=self.start_ms,
            end_ms=self.end_ms,
            restarts=self.restarts,
            labels=self.labels,
        )


@dataclass(frozen=True)
class NodeRecord:
    """This node; `gpus` and `parts` are the GPUs and shards that Slurm grants here, None where it
    says nothing of them.

    `used_indices` are those of the GPUs that jobs hold; None where Slurm says only how many.
    `drained` is why it takes no jobs, whatever the reason, `is_drained` whether somebody drained
    it.
    """

    used: str = ""
    used_gpus: int = 0
    used_indices: Optional[FrozenSet[int]] = frozenset()
    gpus: Optional[int] = None
    parts: Mapping[str, int] = field(default_factory=dict)
    drained: str = ""
    is_drained: bool = False

    def part(self, name: str, devices: int) -> Optional[float]:
        """The share of one GPU that one part is, where every GPU has as many of them."""
        total = self.parts.get(name, 0)
        return devices / total if total and devices and total % devices == 0 else None


def from_json(job: Object, nodes: Sequence[str]) -> Record:
    """The job in an element of `jobs`; `nodes` are the names that this node may have.

    Raises ValueError without an id.
    """
    return replace(record_of(job), gres=_gres_here(job, nodes))


def record_of(job: Object) -> Record:
    """The job of the fields that scontrol's JSON has, whoever told them; it has no part of this
    node.

    Raises ValueError without an id.
    """
    number = whole(job.get("job_id"))
    if not number:
        raise ValueError("a job without an id")
    states = tuple(words(job.get("job_state")))
    return Record(
        id=number,
        name=text(job.get("name")),
        user=text(job.get("user_name")) or digits(job.get("user_id")),
        account=text(job.get("account")),
        states=states,
        is_batch=bool(job.get("batch_flag", True)),
        is_exclusive=_is_exclusive(job),
        submit_ms=epoch_ms(job.get("submit_time")),
        start_ms=epoch_ms(job.get("start_time")),
        end_ms=epoch_ms(job.get("end_time")) if is_over(states) else None,
        restarts=min(whole(job.get("restart_cnt")) or 0, MAX_COUNT),
        sluid=text(job.get("sluid")),
        labels=_labels(job),
    )


def from_text(record: str, *, name: str, nodes: Sequence[str]) -> Record:
    """The job in one line of `scontrol -d -o show job`, its name known from elsewhere.

    The name stands before everything else and may hold what looks like any other field, so it is
    cut off first, and so is what follows from the command on. Raises ValueError when the line is
    not that of a job of this name.
    """
    head = _RECORD_HEAD.match(record)
    if head is None or not record[head.end() :].startswith(name + " "):
        raise ValueError("scontrol's answer does not begin with the job")
    rest = re.split(" (?:Command|WorkDir)=", record[head.end() + len(name) :])[0]
    fields = {**_fields(rest), **_fields(record[: head.end()])}
    job = record_of(_as_json(fields))
    has_end = is_over(job.states) or "COMPLETING" in job.states
    return replace(
        job,
        name=name,
        end_ms=_end_ms(fields) if has_end else None,
        gres=_gres_in_groups(rest, nodes),
    )


def _as_json(fields: Fields) -> Object:
    """The fields of the text by the names that they have in JSON."""
    limit_s = elapsed_s(fields.get("TimeLimit", ""))  # None: UNLIMITED, Partition_Limit
    return {
        **{name: fields.get(of_text) for name, of_text in _AS_TEXT.items()},
        "user_name": re.sub(r"\([^(]*$", "", fields.get("UserId", "")),
        "batch_flag": fields.get("BatchFlag") != "0",
        "exclusive": fields.get("OverSubscribe") == "NO",
        "tres_req_str": fields.get("ReqTRES") or fields.get("TRES"),
        "time_limit": None if limit_s is None else limit_s // 60,
    }


# What text calls the fields that mean the same there.
_AS_TEXT = {
    "job_id": "JobId",
    "account": "Account",
    "job_state": "JobState",
    "submit_time": "SubmitTime",
    "start_time": "StartTime",
    "restart_cnt": "Restarts",
    "sluid": "SLUID",
    "partition": "Partition",
    "qos": "QOS",
    "node_count": "NumNodes",
    "array_job_id": "ArrayJobId",
    "array_task_id": "ArrayTaskId",
    "het_job_id": "HetJobId",
    "het_job_offset": "HetJobOffset",
}


def node_from_text(record: str) -> NodeRecord:
    """The node in one line of `scontrol -d -o show node`."""
    before, _, after = record.partition(" Reason=")
    fields = _fields(before)
    totals: Dict[str, int] = Counter()
    for grant in grants(_absent(fields.get("Gres", ""))):
        totals[grant.name] += grant.count
    used = fields.get("GresUsed", "")
    count, indices = _used(_absent(used))
    return NodeRecord(
        used="%s %s" % (used, fields.get("AllocTRES", "")),
        used_gpus=count,
        used_indices=indices,
        gpus=totals.pop("gpu", None),
        parts=totals,
        drained=_drained(fields.get("State", ""), _AFTER_REASON.split(after)[0].strip()),
        is_drained=not DRAINS.isdisjoint(_node_states(fields.get("State", ""))),
    )


def _used(gres: str) -> Tuple[int, Optional[FrozenSet[int]]]:
    """How many GPUs, and which; None where Slurm says only how many."""
    held = [grant for grant in grants(gres) if grant.name == "gpu" and grant.count]
    is_placed = all(len(grant.shares) == grant.count for grant in held)
    indices = frozenset(index for grant in held for index in grant.shares)
    return sum(grant.count for grant in held), indices if is_placed else None


def _drained(state: str, reason: str) -> str:
    """Why the node takes no jobs; "" when it takes them."""
    out = next((word.lower() for word in _node_states(state) if word in OUT_OF_SERVICE), "")
    return "%s: %s" % (out, _SIGNED.sub("", reason)) if out and reason else out


def _node_states(state: str) -> List[str]:
    return [word.strip(_NODE_STATE_MARKS).upper() for word in state.split("+")]


def _labels(job: Object) -> Dict[str, str]:
    """The few facts of a job that are worth a label."""
    array = _counted(job, "array_job_id")
    het = _counted(job, "het_job_id")
    values = {
        "partition": text(job.get("partition")),
        "qos": text(job.get("qos")),
        "nodes": _counted(job, "node_count"),
        **_requested(text(job.get("tres_req_str"))),
        "time_limit_minutes": _counted(job, "time_limit"),
        "array_job": array,
        "array_task": array and digits(job.get("array_task_id")),
        "het_job": het and "%s+%s" % (het, digits(job.get("het_job_offset"))),
    }
    return {name: value for name, value in values.items() if value}


def _requested(tres: str) -> Dict[str, str]:
    """Of trackable resources such as `cpu=16,mem=64G`."""
    wanted = dict(pair.partition("=")[::2] for pair in tres.split(",") if "=" in pair)
    gpus = gpu_count(tres)
    return {
        "requested_gpus": "" if gpus is None else str(gpus),
        "requested_cpus": wanted.get("cpu", ""),
        "requested_memory": wanted.get("mem", ""),
    }


def _counted(job: Object, name: str) -> str:
    """The number; "" for none and for 0."""
    return str(whole(job.get(name)) or "")


def is_over(states: Iterable[str]) -> bool:
    """Whether the job has ended: before that Slurm's end is only the one that the limit allows."""
    return not FINAL.isdisjoint(states)


def whole(value: Any) -> Optional[int]:
    """A number that may be an object {set, infinite, number}, a plain one or a text; None where it
    says nothing.
    """
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, str):
        match = _NUMBER.match(value.strip())
        value = None if match is None else int(match.group())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < NO_VALUE:
        return None
    return int(value)


def digits(value: Any) -> str:
    """The number as text; "" where `whole` says nothing."""
    number = whole(value)
    return "" if number is None else str(number)


def words(value: Any) -> List[str]:
    """States in capitals from a list, or from one text such as `CANCELLED by 1000` or
    `IDLE+DRAIN`.
    """
    given = (
        value
        if isinstance(value, list)
        else re.split(r"[+,]", value)
        if isinstance(value, str)
        else []
    )
    return [str(word).split()[0].upper() for word in given if str(word).split()]


def text(value: Any) -> str:
    """The text; "" for null and for Slurm's words for it."""
    return _absent(value) if isinstance(value, str) else ""


def epoch_ms(value: Any) -> Optional[int]:
    """A time in milliseconds, of seconds or as Slurm prints it in UTC, `2026-11-03T09:00:00`; None
    where it has not come yet, for Unknown and N/A.
    """
    if isinstance(value, str) and not value.isdigit():
        try:
            value = calendar.timegm(time.strptime(value, "%Y-%m-%dT%H:%M:%S"))
        except ValueError:
            return None
    seconds = whole(value)
    return None if not seconds else seconds * 1000  # 0: not yet


def _is_exclusive(job: Object) -> bool:
    """`exclusive` is a list of words since 23.02; before, `shared` is none for a job that shares
    with nobody.
    """
    value = job.get("exclusive")
    if value is not None:
        return "TRUE" in words(value) if isinstance(value, (list, str)) else value is True
    return words(job.get("shared")) == ["NONE"]


def _gres_here(job: Object, nodes: Sequence[str]) -> Optional[str]:
    """The job's resources on this node: `gres_detail` has one text per node of the job, in the
    job's order of nodes.
    """
    names = _job_nodes(job)
    place = next((place for place, name in enumerate(names) if name in nodes), None)
    if place is None:
        return None
    details = job.get("gres_detail")
    if not isinstance(details, list) or place >= len(details):
        return ""
    return text(details[place])


def _job_nodes(job: Object) -> List[str]:
    resources = part(job, "job_resources")
    allocated = parts(part(resources, "nodes"), "allocation") or parts(resources, "allocated_nodes")
    names = [item.get("name") or item.get("nodename") for item in allocated]
    if names and all(names):
        return [str(name) for name in names]
    try:
        return hosts(text(job.get("nodes")))
    except ValueError:
        return []


def _gres_in_groups(rest: str, nodes: Sequence[str]) -> Optional[str]:
    """As `_gres_here`, of text: nodes with the same resources share a group `Nodes=… CPU_IDs=…
    Mem=… GRES=…`.
    """
    for listed, gres in _GROUP.findall(rest):
        try:
            if set(hosts(listed)) & set(nodes):
                return _absent(gres)
        except ValueError:
            continue
    return None


def _fields(line: str) -> Dict[str, str]:
    """The `Name=value` pairs; of a name that stands twice the first."""
    words = reversed(line.split(" "))  # of a dict the last would count
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def _absent(value: str) -> str:
    return "" if value.strip() in _ABSENT else value.strip()


def _end_ms(fields: Fields) -> Optional[int]:
    """The end of a job that has ended, or completes.

    None for one that completes to be requeued: the text hides its state, its start goes on moving,
    and its end is what the limit allows from there.
    """
    end_ms = epoch_ms(fields.get("EndTime"))
    is_requeued = (
        fields.get("JobState") == "COMPLETING"
        and elapsed_s(fields.get("RunTime", "")) == 0
        and epoch_ms(fields.get("StartTime")) not in (None, end_ms)
    )
    return None if is_requeued else end_ms


def elapsed_s(length: str) -> Optional[int]:
    """Seconds of `[days-]hours:minutes:seconds`; None for words."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,5}):(\d\d):(\d\d)", length.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
