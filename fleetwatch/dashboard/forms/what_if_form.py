"""What a "what if" asks for: GPUs less of one model, more of another. Pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fleetwatch.planning.what_if import MOST_GPUS, Asked

LONGEST = 60  # of what is said back
NAMES = ("less", "less_of", "more", "more_of", "elsewhere")


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """Its fields as they were sent; what they ask for (None: nothing), and what is wrong by
    field.
    """

    values: Mapping[str, str]
    asked: Asked | None
    faults: Mapping[str, str]


def read_what_if(sent: Mapping[str, str], models: Collection[str]) -> WhatIfForm:
    """The form as it was sent."""
    values = {name: sent.get(name, "").strip() for name in NAMES}
    faults: dict[str, str] = {}
    changes: dict[str, int] = defaultdict(int)
    for field, sign in (("less", 1), ("more", -1)):
        gpus = _gpus(values[field])
        model = values[f"{field}_of"]
        changes[model] += sign * (gpus or 0)
        faults |= _faults(field, gpus, model, models)
    asked = Asked(changes, bool(values["elsewhere"]))
    is_asked = bool(values["less"] or values["more"]) and not faults
    return WhatIfForm(values, asked if is_asked else None, faults)


def _faults(field: str, gpus: int | None, model: str, models: Collection[str]) -> dict[str, str]:
    """What is wrong with so many GPUs of that model, by field."""
    if gpus is None:
        return {field: f"The number of GPUs is a whole number up to {MOST_GPUS:,}."}
    if gpus and model not in models:
        return {f"{field}_of": f"There is no GPU model {model[:LONGEST]!r}."}
    return {}


def _gpus(text: str) -> int | None:
    """A number of GPUs, 0 where nothing is said; None of what is no such number."""
    if not text:
        return 0
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_GPUS))
    return int(text) if is_number and int(text) <= MOST_GPUS else None
