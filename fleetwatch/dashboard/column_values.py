"""Values of telemetry's columns with their units, as pages show them. Pure."""

from fleetwatch.diagnosis.findings.measures import Shown, number, rate, share

GB = 1e9


def ranged(column: str, low: float, high: float) -> str:
    """The lowest to the highest with its unit; one value where both print the same."""
    shown = _shown(column)
    texts = dict.fromkeys((shown(low), shown(high)))
    return " to ".join(texts)


def _shown(column: str) -> Shown:
    """By the unit at the end of its name; without one it is a share."""
    if column.endswith("_count"):
        return number
    return next((shown for end, shown in _BY_UNIT.items() if column.endswith(end)), share)


def _gigabytes(value: float) -> str:
    return f"{value / GB:.1f} GB"


def _watts(value: float) -> str:
    return f"{value:.0f} W"


def _joules(value: float) -> str:
    return f"{value:.0f} J"


_BY_UNIT = {"_bytes_s": rate, "_bytes": _gigabytes, "_w": _watts, "_j": _joules}
