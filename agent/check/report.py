"""What `check` prints: what this host offers, what can't be read, why, and what to do about it.

Pure.
"""

from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any, Dict, List, Mapping, Optional, Sequence

from agent.check import check_advice
from agent.lines import printable
from agent.readings import GPUInfo, GPUs
from agent.window import GPUWindow

WIDTH = 100
_COLOURS = {"ok": "32", "part": "33", "warn": "33", "no": "31"}
_MIN_MODEL = 12


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    `state`: ok; warn, works with a loss; no, does not work; `-`, not on this host.
    """

    name: str
    state: str
    text: str
    advice: str = ""


Findings = Sequence[Finding]


@dataclass(frozen=True)
class Look:
    """Everything a check saw; `failure` says why no GPU can be read at all."""

    node: str
    versions: Mapping[str, str]
    source: str = ""
    gpus: GPUs = ()
    windows: Sequence[GPUWindow] = ()
    jobs: Findings = ()
    host: Findings = ()
    hub: Findings = ()
    notes: Sequence[str] = field(default_factory=tuple)
    failure: Optional[str] = None

    @property
    def is_readable(self) -> bool:
        """True when anything of any GPU was read."""
        return any(window.columns for window in self.windows)

    @property
    def is_ok(self) -> bool:
        """True when something is read, and the hub takes it as far as it was asked."""
        return self.is_readable and not any(finding.state == "no" for finding in self.hub)

    def columns_of(self, gpu: GPUInfo) -> Mapping[str, float]:
        """What was read of the GPU."""
        return next((window.columns for window in self.windows if window.uuid == gpu.uuid), {})


def text(look: Look, *, has_colour: bool) -> str:
    """The report for people: at most WIDTH columns, clear without colour."""
    rows = check_advice.rows_of(look.gpus, look.windows, source=look.source)
    judged = [
        _metric_lines(rows),
        _finding_lines("job source", look.jobs),
        _finding_lines("host", look.host),
        _finding_lines("hub", look.hub),
    ]
    sections = [
        _heads(look),
        table(_gpu_rows(look)) if look.gpus else [],
        *(map(_coloured, judged) if has_colour else judged),
        _items("what to do", _to_do(look, rows)),
        _items("noticed meanwhile", look.notes),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _heads(look: Look) -> List[str]:
    heads = (("node", look.node), ("source", look.source or "none"), *look.versions.items())
    lines = ["%-8s %s" % (name, printable(words)) for name, words in heads]
    return ["no GPU can be read: %s" % printable(look.failure), *lines] if look.failure else lines


def as_json(look: Look) -> Dict[str, Any]:
    """The same for machines."""
    rows = check_advice.rows_of(look.gpus, look.windows, source=look.source)
    findings = {"jobs": look.jobs, "host": look.host, "hub": look.hub}
    return {
        "ok": look.is_ok,
        "failure": look.failure,
        "node": look.node,
        "source": look.source or None,
        "versions": dict(look.versions),
        "gpus": [{**asdict(gpu), "columns": look.columns_of(gpu)} for gpu in look.gpus],
        "metrics": [row._asdict() for row in rows],
        "advice": [
            {"metrics": names, "reason": reason, "do": what}
            for names, reason, what in check_advice.advice_of(rows)
        ],
        **{name: [asdict(finding) for finding in listed] for name, listed in findings.items()},
        "notes": list(look.notes),
    }


def table(rows: Sequence[Sequence[str]]) -> List[str]:
    """The rows with aligned columns; the first is the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]


def _gpu_rows(look: Look) -> List[Sequence[str]]:
    """Identity and the present moment of each GPU; the model takes the room that is left."""
    rows = [
        ("GPU", "model", "memory", "power", "util", "uuid"),
        *(_gpu_row(place, gpu, look.columns_of(gpu)) for place, gpu in enumerate(look.gpus)),
    ]
    widths = [max(map(len, column)) + 2 for column in zip(*rows)]
    room = max(_MIN_MODEL, WIDTH - sum(widths) + widths[1])
    return [(row[0], clipped(row[1], room), *row[2:]) for row in rows]


def _gpu_row(place: int, gpu: GPUInfo, now: Mapping[str, float]) -> Sequence[str]:
    memory = _of(now.get("memory_used_bytes"), gpu.memory_total_bytes, 2**30, "%.1f", "GiB")
    util = now.get("util_mean", now.get("gr_engine_active"))
    share = "-" if util is None else "%.0f %%" % (util * 100)
    if gpu.parent_uuid is not None:
        return "", "  MIG " + (gpu.mig_profile or ""), memory, "", share, gpu.uuid
    number = str(place if gpu.index is None else gpu.index)
    power = _of(now.get("power_w"), gpu.power_limit_w, 1, "%.0f", "W")
    return number, gpu.model or "unknown", memory, power, share, gpu.uuid


def _of(value: Optional[float], total: Optional[float], unit: float, form: str, name: str) -> str:
    """`value/total unit`, with a dash for what was not read."""
    shown = ["-" if number is None else form % (number / unit) for number in (value, total)]
    return "-" if shown == ["-", "-"] else "%s/%s %s" % (shown[0], shown[1], name)


def _metric_lines(rows: check_advice.Rows) -> List[str]:
    lines = [("", "metric", "works on", "why not")]
    for row in rows:
        if row.of:
            state = "ok" if row.works_on == row.of else "part" if row.works_on else "no"
            why = ", ".join(_counted(row, reason) for reason in sorted(row.why))
            lines.append((state, row.metric, "%d of %d" % (row.works_on, row.of), why))
    return table(lines) if lines[1:] else []


def _counted(row: check_advice.Row, why: str) -> str:
    words = check_advice.words(why)
    return words if row.why[why] == row.of else "%s on %d" % (words, row.why[why])


def _finding_lines(title: str, findings: Findings) -> List[str]:
    """Name and state in columns; a long text goes on below itself."""
    if not findings:
        return []
    width = max(len(title), *(len(finding.name) for finding in findings))
    lines = [("    ", title, "")]
    for finding in findings:
        first, *rest = wrap(printable(finding.text), WIDTH - width - 8) or [""]
        lines.append((finding.state, finding.name, first))
        lines += [("", "", line) for line in rest]
    return table(lines)


def _coloured(lines: Sequence[str]) -> List[str]:
    """The state at the head of each line in its colour; the first line is the title."""
    coloured = ["\033[1m%s\033[0m" % line for line in lines[:1]]
    for line in lines[1:]:
        state, space, rest = line.partition(" ")
        if state in _COLOURS:
            state = "\033[%sm%s\033[0m" % (_COLOURS[state], state)
        coloured.append(state + space + rest)
    return coloured


def _to_do(look: Look, rows: check_advice.Rows) -> List[str]:
    """One item for each reason, the host's first."""
    findings = (*look.hub, *look.host, *look.jobs)
    todo = [
        "%s: %s" % (finding.name, finding.advice)
        for finding in findings
        if finding.advice and finding.state in ("no", "warn")
    ]
    if any(gpu.persistence is False for gpu in look.gpus):
        todo.append(
            "persistence mode is off (idle GPUs may read as busy): nvidia-smi -pm 1, or"
            " nvidia-persistenced"
        )
    return todo + [
        "%s (%s): %s" % item
        for item in check_advice.advice_of(rows)
        if "nothing to do" not in item[2]
    ]


def _items(title: str, items: Sequence[str]) -> List[str]:
    """The items below their title, none without any."""
    lines = [title] if items else []
    for item in items:
        lines += wrap(
            clipped(item, 600),
            WIDTH,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    return lines


def clipped(words: str, length: int) -> str:
    """One line of printable characters, cut where it is longer."""
    line = printable(words)
    return line if len(line) <= length else line[: length - 1] + "…"
