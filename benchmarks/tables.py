"""What a bench hands back: tables of text and numbers, and goals with what was measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Cell = str | int | float | None  # None: not measured


class Size(StrEnum):
    """How long a bench may take: `quick` a minute or two, `full` what it takes."""

    QUICK = "quick"
    FULL = "full"


class BenchError(Exception):
    """The measurement is worth nothing: answers disagree, a peer is missing, a server did not
    start.
    """


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the target table.

    `measured` is in the unit of `must`; None: this run did not measure it.
    """

    name: str
    measured: float | None
    must: float
    moonshot: float | None
    unit: str = ""  # "x VM", "ms", "CPU-s"
    is_more_better: bool = False
    where: str = ""  # the size at which it was measured: "1,000 GPUs x 24 h"
    # CPU seconds of a reference kernel in the same run: what is judged is how many of these it took
    kernel_s: float | None = None

    @property
    def judged(self) -> float | None:
        """What is compared with the bounds: as the machine of the targets would have measured."""
        if self.measured is None or self.kernel_s is None:
            return self.measured
        return self.measured / self.kernel_s

    def verdict(self) -> str:
        """ "moonshot", "must", or by how much it was missed."""
        judged = self.judged
        if judged is None:
            return "not measured in this run"
        if self.moonshot is not None and self._reaches(self.moonshot):
            return "moonshot"
        if self._reaches(self.must):
            return "must"
        if not self.must:
            return "missed"
        worse = self.must / judged if self.is_more_better else judged / self.must
        return f"missed by {worse:.2g}x"

    def _reaches(self, bound: float) -> bool:
        assert self.judged is not None
        return self.judged >= bound if self.is_more_better else self.judged <= bound


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    A float is printed with three significant digits; write anything else as text.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    # what is not comparable, what was left out, tolerances: one sentence each
    notes: Sequence[str] = ()
    goals: Sequence[Goal] = field(default_factory=tuple)

    def markdown(self) -> str:
        """The table and its notes as Markdown, without the goals."""
        lines = [
            f"### {self.title}",
            "",
            _line(self.columns),
            _line(["---", *["---:"] * (len(self.columns) - 1)]),
        ]
        lines += [_line([shown(cell) for cell in row]) for row in self.rows]
        return "\n".join(
            [*lines, "", *[f"- {note}" for note in self.notes], *([""] if self.notes else [])]
        )


def shown(cell: Cell) -> str:
    """A cell as text: thousands separated, three significant digits; "–" for what was not
    measured.
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if cell == 0 or abs(cell) >= 100:
        return f"{cell:,.0f}"
    digits = 2 if abs(cell) >= 1 else 3
    return f"{cell:.{digits}f}" if abs(cell) >= 0.01 else f"{cell:.2g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
