"""What a job asked for against what it held: as far as its scheduler said it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleetwatch.dashboard.job_memory import MemoryUse
from fleetwatch.dashboard.numbers import UNKNOWN, duration, gigabytes, percent
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.scheduled import granted_gpus
from fleetwatch.lib.durations import exact
from fleetwatch.lib.intervals import MINUTE_MS, from_ms

# labels that request_lines tells
IN_LINES = {"requested_gpus", "requested_cpus", "requested_memory", "time_limit_minutes"}
NOT_SAID = "Not reported by its scheduler"
NOT_KEPT = "Use is not kept per job"
NOT_READ = "Use was not read"
TIME_LIMIT = "Time limit"
NO_LIMIT = "no limit reported"  # whether there is none, or nobody said it


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One resource: asked for and held, in words; a dash, and why, where that is not known.
    `asked`: as what that is missing, where it is not called so.
    """

    name: str
    requested: str
    held: str
    why: str = ""
    asked: str = ""

    @property
    def is_known(self) -> bool:
        """Whether either is known: of what nobody said and nobody counts there is no line."""
        return not {self.requested, self.held} <= {UNKNOWN, NO_LIMIT}


def request_lines(
    job: Job,
    *,
    gpus: int,
    now_ms: int,
    evidence: Evidence | None = None,
    memory: MemoryUse | None = None,
) -> list[RequestLine]:
    """GPUs, time, CPUs and memory; `gpus`: on how many it was seen. Of its CPUs those that the
    evidence of its finding names, of its memory the most that was read.
    """
    asked_gpus = granted_gpus(job.labels)
    return [
        _line("GPUs", str(asked_gpus or UNKNOWN), str(gpus)),
        _time(job, now_ms),
        _line("CPUs", job.labels.get("requested_cpus") or UNKNOWN, _cores(evidence)),
        _line("Memory", job.labels.get("requested_memory") or UNKNOWN, _most(memory), NOT_READ),
    ]


def _time(job: Job, now_ms: int) -> RequestLine:
    """How long it may run, and ran: "at most 24 h", "20 h so far"."""
    limit_ms = time_limit_ms(job.labels)
    lasted_ms = None if job.start_ms is None else (job.end_ms or now_ms) - job.start_ms
    line = _line(TIME_LIMIT, duration(limit_ms), duration(lasted_ms))
    return replace(
        line,
        name="Time",
        asked=TIME_LIMIT,
        requested=NO_LIMIT if limit_ms is None else f"at most {line.requested}",
        held=line.held if lasted_ms is None else _ran(line.held, is_over=job.end_ms is not None),
    )


def _ran(lasted: str, *, is_over: bool) -> str:
    return f"ran {lasted}" if is_over else f"{lasted} so far"


def _cores(evidence: Evidence | None) -> str:
    """Those on the node of the GPU that was looked at, and how much of them it used:
    "128, 97 % in use"; a dash where nobody measured them.
    """
    if evidence is None or evidence.facts.cores is None:
        return UNKNOWN
    ratio = evidence.facts.cpu_ratio
    use = "" if ratio is None else f", {percent(ratio)} in use"
    return f"{evidence.facts.cores:.0f}{use}"


def measured_cpus(evidence: Evidence | None) -> str:
    """Where and when the CPUs in _cores were measured; "" = nowhere."""
    if evidence is None or evidence.facts.cores is None:
        return ""
    begins = f"{from_ms(evidence.start_ms):%-d %b, %H:%M}"
    ends = f"{from_ms(evidence.end_ms):%H:%M}"
    is_short = begins.endswith(ends)
    lasted = f"for {exact(evidence.end_ms - evidence.start_ms)} from then on"
    window = f"{begins} UTC, {lasted}" if is_short else f"{begins} to {ends} UTC"
    return (
        f"CPUs: as the agent of {evidence.gpu.node.name} measured them in the window that the"
        f" finding rests on, {window}."
    )


def _most(memory: MemoryUse | None) -> str:
    """ "40 GB in use at most"; a dash where nobody measured it."""
    return f"{gigabytes(memory.most_bytes)} in use at most" if memory else UNKNOWN


def measured_memory(memory: MemoryUse | None) -> str:
    """What the memory in _most is, and of which time and nodes; "" = nowhere."""
    if memory is None:
        return ""
    agents = "agents" if memory.nodes > 1 else "agent"
    added = f", of {memory.nodes} nodes added up" if memory.nodes > 1 else ""
    missing = memory.held_nodes - memory.nodes
    without = f"; of {missing} more it was not read" if missing else ""
    time = f" in its last {duration(memory.cut_ms)}" if memory.cut_ms else ""
    return (
        f"Memory: the largest reading of its {agents}{time}{added}{without}. File pages that the"
        " kernel can drop at once are not counted."
    )


def other_labels(job: Job) -> list[tuple[str, str]]:
    """What else its scheduler said of it, by name."""
    return [(name, value) for name, value in job.labels.items() if name not in IN_LINES]


def notes(lines: Sequence[RequestLine], *, is_submit_known: bool) -> list[str]:
    """Why something is not shown, once for all that it is true of: "Not reported by its
    scheduler: GPUs, time limit, when it was submitted."
    """
    named: dict[str, list[str]] = {}
    for line in lines:
        if line.why:
            named.setdefault(line.why, []).append(_inside(line.asked or line.name))
    if not is_submit_known:
        named.setdefault(NOT_SAID, []).append("when it was submitted")
    return [f"{why}: {', '.join(names)}." for why, names in named.items()]


def _inside(name: str) -> str:
    """The name within a sentence: "time limit", and still "GPUs"."""
    return name if name[1].isupper() else name.lower()


def _line(name: str, requested: str, held: str, without: str = NOT_KEPT) -> RequestLine:
    reasons = {NOT_SAID: requested == UNKNOWN, without: held == UNKNOWN}
    return RequestLine(
        name, requested, held, next((why for why, is_so in reasons.items() if is_so), "")
    )


def time_limit_ms(labels: Mapping[str, str]) -> int | None:
    """The time limit in milliseconds; None where none was said."""
    text = str(labels.get("time_limit_minutes", ""))
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return int(text) * MINUTE_MS if is_number else None
