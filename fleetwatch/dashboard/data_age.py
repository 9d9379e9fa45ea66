"""How old the newest data is that a page was made of, in a word. Pure."""

from dataclasses import dataclass

from fleetwatch.dashboard.agent_lines import LATE_AFTER_MS, SILENT_AFTER_MS


@dataclass(frozen=True, slots=True)
class DataAge:
    """`age_ms` is None where nothing has come yet; `word` is of it, `colour` of its dot."""

    age_ms: int | None
    word: str
    colour: str


NOTHING_YET = DataAge(None, "no data yet", "")


def data_age(newest_ms: int | None, now_ms: int) -> DataAge:
    """Of data that ends at `newest_ms`: live, late or stale, by the bounds that agents have."""
    if newest_ms is None:
        return NOTHING_YET
    age_ms = max(0, now_ms - newest_ms)
    if age_ms > SILENT_AFTER_MS:
        return DataAge(age_ms, "stale", "bad")
    if age_ms > LATE_AFTER_MS:
        return DataAge(age_ms, "late", "warn")
    return DataAge(age_ms, "live", "good")
