"""What `check` prints: what this host offers, what can't be read, why, and what to do about it.

Pure.
"""

from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any, Dict, List, Mapping, Optional, Sequence

from agent import check_advice
from agent.readings import GPUInfo
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


@dataclass(frozen=True)
class Look:
    """Everything a check saw; `failure` says why no GPU can be read at all."""

    node: str
    versions: Mapping[str, str]
    source: str = ""
    gpus: Sequence[GPUInfo] = ()
    windows: Sequence[GPUWindow] = ()
    jobs: Sequence[Finding] = ()
    host: Sequence[Finding] = ()
    hub: Sequence[Finding] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    failure: Optional[str] = None

    @property
    def is_readable(self) -> bool:
        """True when anything of any GPU was read."""
        return any(window.columns for window in self.windows)


def text(look: Look, *, has_colour: bool) -> str:
    """The report for people: at most WIDTH columns, clear without colour."""
    lines = ["no GPU can be read: %s" % printable(look.failure)] if look.failure else []
    heads = (("node", look.node), ("source", look.source or "none"), *look.versions.items())
    lines += ["%-8s %s" % (name, printable(words)) for name, words in heads]
    if look.gpus:
        lines += ["", *table(_gpu_rows(look))]
    rows = check_advice.rows_of(look.gpus, look.windows, source=look.source) if look.gpus else []
    if rows:
        lines += ["", *_metric_lines(rows, has_colour)]
    for title, findings in (("job source", look.jobs), ("host", look.host), ("hub", look.hub)):
        if findings:
            lines += ["", *_finding_lines(title, findings, has_colour)]
    todo = _to_do(look, rows)
    if todo:
        lines += ["", "what to do", *(line for item in todo for line in _item(item))]
    if look.notes:
        lines += ["", "noticed meanwhile", *(line for note in look.notes for line in _item(note))]
    return "\n".join(lines)


def as_json(look: Look) -> Dict[str, Any]:
    """The same for machines."""
    columns = {window.uuid: window.columns for window in look.windows}
    rows = check_advice.rows_of(look.gpus, look.windows, source=look.source)
    return {
        "ok": look.is_readable and not any(finding.state == "no" for finding in look.hub),
        "failure": look.failure,
        "node": look.node,
        "source": look.source or None,
        "versions": dict(look.versions),
        "gpus": [{**asdict(gpu), "columns": columns.get(gpu.uuid, {})} for gpu in look.gpus],
        "metrics": [
            {
                "metric": row.metric.name,
                "column": row.metric.column,
                "works_on": row.works,
                "of": row.of,
                "why": dict(row.why),
            }
            for row in rows
        ],
        "advice": [
            {"metrics": names, "reason": reason, "do": what}
            for names, reason, what in check_advice.advice_of(rows)
        ],
        "jobs": [asdict(finding) for finding in look.jobs],
        "host": [asdict(finding) for finding in look.host],
        "hub": [asdict(finding) for finding in look.hub],
        "notes": list(look.notes),
    }


def table(rows: Sequence[Sequence[str]]) -> List[str]:
    """The rows with aligned columns; the first is the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]


def _gpu_rows(look: Look) -> List[Sequence[str]]:
    """Identity and the present moment of each GPU; the model takes the room that is left."""
    columns = {window.uuid: window.columns for window in look.windows}
    rows = [
        ("GPU", "model", "memory", "power", "util", "uuid"),
        *(_gpu_row(place, gpu, columns) for place, gpu in enumerate(look.gpus)),
    ]
    taken = sum(max(len(row[place]) for row in rows) + 2 for place in (0, 2, 3, 4, 5))
    room = max(_MIN_MODEL, WIDTH - taken)
    return [(row[0], clipped(row[1], room), *row[2:]) for row in rows]


def _gpu_row(place: int, gpu: GPUInfo, columns: Mapping[str, Mapping[str, float]]) -> Sequence[str]:
    now = columns.get(gpu.uuid, {})
    is_part = gpu.parent_uuid is not None
    number = "" if is_part else str(place if gpu.index is None else gpu.index)
    model = "  MIG " + (gpu.mig_profile or "") if is_part else gpu.model or "unknown"
    memory = _of(now.get("memory_used_bytes"), gpu.memory_total_bytes, 2**30, "%.1f", "GiB")
    power = "" if is_part else _of(now.get("power_w"), gpu.power_limit_w, 1, "%.0f", "W")
    util = now.get("util_mean", now.get("gr_engine_active"))
    return (
        number,
        model,
        memory,
        power,
        "-" if util is None else "%.0f %%" % (util * 100),
        gpu.uuid,
    )


def _of(value: Optional[float], total: Optional[float], unit: float, form: str, name: str) -> str:
    """`value/total unit`, with a dash for what was not read."""
    shown = ["-" if number is None else form % (number / unit) for number in (value, total)]
    return "-" if shown == ["-", "-"] else "%s/%s %s" % (shown[0], shown[1], name)


def _metric_lines(rows: Sequence[check_advice.Row], has_colour: bool) -> List[str]:
    head = [("", "metric", "works on", "why not")]
    body = [
        (
            _row_state(row),
            row.metric.name,
            "%d of %d" % (row.works, row.of),
            ", ".join(_counted(row, why) for why in sorted(row.why)),
        )
        for row in rows
        if row.of
    ]
    return _coloured(table([*head, *body]), has_colour)


def _row_state(row: check_advice.Row) -> str:
    return "ok" if row.works == row.of else "part" if row.works else "no"


def _counted(row: check_advice.Row, why: str) -> str:
    return (
        check_advice.words(why)
        if row.why[why] == row.of
        else "%s on %d" % (check_advice.words(why), row.why[why])
    )


def _finding_lines(title: str, findings: Sequence[Finding], has_colour: bool) -> List[str]:
    """Name and state in columns; a long text goes on below itself."""
    width = max(len(title), *(len(finding.name) for finding in findings))
    lines = ["      %s" % title]
    for finding in findings:
        first, *rest = wrap(printable(finding.text), WIDTH - width - 8) or [""]
        lines.append(("%-4s  %-*s  %s" % (finding.state, width, finding.name, first)).rstrip())
        lines += [" " * (width + 8) + line for line in rest]
    return _coloured(lines, has_colour)


def _coloured(lines: Sequence[str], has_colour: bool) -> List[str]:
    """The state at the head of each line in its colour; the first line is the title."""
    if not has_colour:
        return list(lines)
    coloured = ["\033[1m%s\033[0m" % lines[0]]
    for line in lines[1:]:
        state = line.split(" ", 1)[0]
        coloured.append(
            "\033[%sm%s\033[0m%s" % (_COLOURS[state], state, line[len(state) :])
            if state in _COLOURS
            else line
        )
    return coloured


def _to_do(look: Look, rows: Sequence[check_advice.Row]) -> List[str]:
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


def _item(item: str) -> List[str]:
    return wrap(
        clipped(item, 600),
        WIDTH,
        initial_indent="  - ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def clipped(words: str, length: int) -> str:
    """One line of printable characters, cut where it is longer."""
    line = printable(words)
    return line if len(line) <= length else line[: length - 1] + "…"


def printable(words: str) -> str:
    """What drivers, exporters and commands said, on one line and without anything that a terminal
    would obey.
    """
    return (
        words
        if words.isprintable()
        else "".join(character if character.isprintable() else " " for character in words)
    )
