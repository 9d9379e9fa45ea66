"""What a weekly digest says to do: its fixes, each once, with the findings that they are of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.diagnosis.findings import inbox
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.notify import wording
from fleetwatch.reports.digest_lists import by_step
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
    """A step, what to type ("" = nothing), whom it helps, and what it could save of all of them."""

    step: str
    code: str
    subjects: list[Subject]
    low_usd: Decimal
    high_usd: Decimal

    @property
    def saved(self) -> str:
        """As the table above says it of one."""
        return wording.between(self.low_usd, self.high_usd)


def digest_fixes(causes: Sequence[Shape]) -> list[Fix]:
    """The fixes of a digest's causes, what could save most in sum first: what several share stands
    once.
    """
    finding_ids = inbox.ids_by_job([cause["job"] for cause in causes if "job" in cause])
    return [_fix(several, finding_ids) for several in by_step(causes)]


def _fix(several: Sequence[Shape], finding_ids: Mapping[tuple[str, str], int]) -> Fix:
    ids = [finding_ids.get((cause.get("job", ""), cause["cause"])) for cause in several]
    names = [cause["name"] for cause in several]
    subjects = [
        Subject(_told_apart(cause, names), finding)
        for cause, finding in zip(several, ids, strict=True)
    ]
    codes = list(dict.fromkeys(cause["command"] for cause in several if cause["command"]))
    low_usd, high_usd = (
        exact_sum(Decimal(cause[name]) for cause in several) for name in ("low_usd", "high_usd")
    )
    return Fix(several[0]["step"], "; ".join(codes), subjects, low_usd, high_usd)


def _told_apart(cause: Shape, names: Sequence[str]) -> str:
    """Its name, with whose it is where another one is called so, too."""
    name: str = cause["name"]
    return name if names.count(name) == 1 else f"{name} of {cause['owner']}"
