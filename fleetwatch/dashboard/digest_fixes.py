"""What a weekly digest says to do: its fixes, each once, with the findings that they are of."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fleetwatch.diagnosis.findings import inbox
from fleetwatch.reports.statement import Shape


@dataclass(frozen=True, slots=True)
class Subject:
    """A job or machine by name; `finding` is None for a machine, and for what the reader can't
    open.
    """

    name: str
    finding: int | None


@dataclass(frozen=True, slots=True)
class Fix:
    """A step, what to type ("" = nothing), and whom it helps."""

    step: str
    code: str
    subjects: list[Subject] = field(default_factory=list)


def digest_fixes(causes: Sequence[Shape]) -> list[Fix]:
    """The fixes of a digest's causes, in their order: what several share stands once."""
    finding_ids = inbox.ids_by_job([cause["job"] for cause in causes if "job" in cause])
    fixes: dict[tuple[str, str], Fix] = {}
    for cause in causes:
        step = cause["step"]
        code = cause["command"]
        fix = fixes.setdefault((step, code), Fix(step, code))
        finding = finding_ids.get((cause.get("job", ""), cause["cause"]))
        fix.subjects.append(Subject(cause["name"], finding))
    return list(fixes.values())
