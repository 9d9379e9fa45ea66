"""docs/benchmarks.md: what was measured, on what, and which targets were met."""

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy

from benchmarks.tables import Goal, Table, shown

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("victoria-metrics", "prometheus", "prometheus-node-exporter")
INTRODUCTION = """# Benchmarks

`make bench` writes this page in some twelve minutes on two cores, `make bench-full` in {full_time};
`benchmarks/` says how each figure
comes about. Peers are Debian's packages on the same machine, with the same data and the same
queries, in rounds that take turns;
answers are compared, and a benchmark whose answers differ, or whose peer is missing, fails and
writes no page. Figures are medians
with their range. CPU seconds count all processes of a server. Machines differ and drift: ratios
within one run are what counts.
Fleets of 1,000 GPUs beside the peers, and of 10,000: [benchmarks-fleet.md](benchmarks-fleet.md).
"""
FULL_TIME = "about an hour"


@dataclass(frozen=True, slots=True)
class Result:
    """What one bench gave. `error` is empty when it ran."""

    name: str
    took_s: float
    about: str = ""
    tables: Sequence[Table] = field(default_factory=tuple)
    error: str = ""

    @classmethod
    def from_json(cls, name: str, took_s: float, text: str) -> "Result":
        told = json.loads(text)
        return cls(name, took_s, told["about"], [_table(one) for one in told["tables"]])


def text(results: Sequence[Result], *, command: str, began: datetime) -> str:
    """The whole page, with the command that gave it."""
    parts = [
        INTRODUCTION.format(full_time=FULL_TIME),
        _where(results, command=command, began=began),
    ]
    if goals := [goal for result in results for table in result.tables for goal in table.goals]:
        parts.append(_goals(goals))
    parts += [_section(result) for result in results]
    return "\n".join(parts)


def with_sections(page: str, results: Sequence[Result], *, command: str, began: datetime) -> str:
    """The page with these benches' sections instead of those that it has, each with its targets and
    the command that gave it; a new one comes at the end.
    """
    head, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    sections = {part.partition("\n")[0]: part for part in parts}
    for result in results:
        goals = [goal for table in result.tables for goal in table.goals]
        where = _where([result], command=command, began=began)
        sections[_title(result)] = _section(
            result, where, *([_goals(goals, "###")] if goals else [])
        )
    return "\n".join(part.rstrip("\n") + "\n" for part in (head, *sections.values()))


def _section(result: Result, *above: str) -> str:
    """Its tables below what it is about, and below what is to stand above them."""
    tables = [table.markdown() for table in result.tables]
    return "\n".join([_title(result), "", result.error or result.about, "", *above, *tables])


def _title(result: Result) -> str:
    return f"## {result.name.capitalize()}"


def _table(told: dict[str, Any]) -> Table:
    return Table(**told | {"goals": [Goal(**goal) for goal in told["goals"]]})


def _where(results: Iterable[Result], *, command: str, began: datetime) -> str:
    took = ", ".join(f"{result.name} {result.took_s / 60:.1f}" for result in results)
    lines = [
        f"- {began:%Y-%m-%d %H:%M} UTC, `{command}`; minutes: {took}",
        f"- {_processor()}, {platform.system()} {platform.release()}",
        f"- revision {_revision()}",
        (
            f"- Python {platform.python_version()} ({Path(sys.executable).resolve()}),"
            f" numpy {numpy.__version__},"
            f" {', '.join(map(_package, PACKAGES))}"
        ),
    ]
    return "\n".join([*lines, ""])


def _goals(goals: Iterable[Goal], level: str = "##") -> str:
    lines = [
        f"{level} Targets",
        "",
        "| target | at | measured | must | moonshot | met |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for goal in goals:
        sign = "≥" if goal.is_more_better else "≤"
        moonshot = "–" if goal.moonshot is None else f"{sign} {goal.moonshot:g}"
        measured = shown(goal.measured if goal.measured is None else float(goal.measured))
        if goal.kernel_s is not None:
            measured += f" ({shown(goal.judged)} at the reference)"
        lines.append(
            f"| {goal.name} | {goal.where} | {measured} {goal.unit} | {sign} {goal.must:g} |"
            f" {moonshot} | {goal.verdict()} |"
        )
    return "\n".join([*lines, ""])


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory_kib = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    return (
        f"{len(models)} × {models[0] if models else platform.machine()},"
        f" {memory_kib / 2**20:.0f} GiB"
    )


def _revision() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git(
        "status", "--porcelain", "--untracked-files=no", "--", "fleetwatch", "agent", "benchmarks"
    )
    return git("rev-parse", "--short=12", "HEAD") + (
        " with changes that are not committed" if changed else ""
    )


def _package(name: str) -> str:
    found = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True, check=False
    )
    return f"{name} {found.stdout.strip() or 'not installed'}"
