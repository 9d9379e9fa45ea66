"""Why a ledger entry is what it is, in words: its kind, its reason and what it was judged by."""

from fleetwatch.ledger.judgement.rule_words import OUTAGES
from fleetwatch.ledger.models import Adjustment, Entry

# docs/ledger.md says what each is; a word that is not here is shown as it is
KINDS = {
    "cold": "never had a context",
    "held": "a context is held",
    "interactive": "interactive",
    "within": "pauses within active windows",
    "gap": "a short quiet run",
    "spinning": "busy-waiting",
}
REASONS = {
    "unreadable": "could not be read",
    "under_observed": "hardly observed",
    "no_signal": "no activity was read",
    "missing": "no data",
    "silent": "its node was silent",
    **OUTAGES,
    "allocation_unknown": "not known whether it was allocated",
    "unexplained_work": "works, nobody knows for whom",
    "process": "a process holds it",
    "dead_process": "a dead process holds it",
    "memory": "memory is in use",
}
SIGNALS = {
    "utilization": "by utilisation",
    "gr_engine_active": "by engine activity",
    "sm_active": "by SM activity",
    "process_sm_ratio": "by its processes' SM time",
    "video_engines": "by its video engines",
}
EFFICIENCIES = {
    "sensors": "efficiency by sensors",
    "power": "efficiency estimated by power",
    "none": "efficiency not measured",
}


def why(entry: Entry | Adjustment) -> str:
    """A sentence without its end: "by utilisation, efficiency by sensors"."""
    parts = (
        (KINDS, entry.kind),
        (REASONS, entry.reason),
        (SIGNALS, entry.signal),
        (EFFICIENCIES, entry.efficiency_source),
    )
    parts_in_words = [words.get(name, name.replace("_", " ")) for words, name in parts if name]
    if entry.state == "free":
        parts_in_words.insert(0, "no job and nothing holds it")
    return ", ".join(parts_in_words)
