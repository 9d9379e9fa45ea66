"""What an entry says beside its time, as small numbers: labels, and kinds (a label with its signal
and efficiency source). Pure.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Kinds = NDArray[np.int16]
Codes = NDArray[np.signedinteger[Any]]

# First that was read; the one used is recorded (docs/ledger.md).
SIGNALS = ("", "utilization", "gr_engine_active", "sm_active", "process_sm_ratio", "video_engines")
VIDEO = 5
EFFICIENCY_SOURCES = ("", "sensors", "power", "none")
SENSORS = 1
POWER = 2
BUSY_ONLY = 3
UNSEEN_REASONS = ("", "unreadable", "under_observed", "no_signal")
UNREADABLE = 1
UNDER_OBSERVED = 2
NO_SIGNAL = 3
NO_WINDOW = 4

# What holds a GPU that nobody was given.
NOTHING, PROCESS, DEAD_PROCESS, MEMORY, UNKNOWN, WORK = range(6)
HOLDERS = ("", "process", "dead_process", "memory", "", "")

# Sub-kinds of quiet time: was there a context?
CONTEXT_UNKNOWN, COLD, HELD = range(3)
CONTEXT_KINDS = ("", "cold", "held")

# a kind is label << LABEL_SHIFT | source << SOURCE_SHIFT | signal
SOURCE_SHIFT = 3
LABEL_SHIFT = 5
SIGNAL_MASK = (1 << SOURCE_SHIFT) - 1
SOURCE_MASK = (1 << LABEL_SHIFT) - 1 - SIGNAL_MASK


class Label(NamedTuple):
    """What an entry says beside its time: state, sub-kind, reason, waste tier."""

    state: str
    kind: str = ""
    reason: str = ""
    tier: str = ""


MISSING = Label("unobserved", reason="missing")
SILENT = Label("unobserved", reason="silent")
ALLOCATION_UNKNOWN = Label("unobserved", reason="allocation_unknown")
UNEXPLAINED_WORK = Label("unobserved", reason="unexplained_work")
FREE = Label("free", tier="potential")
USEFUL = Label("useful")
UNDERUSED = Label("underused", tier="potential")
STARTING = Label("starting")
# why a window says nothing, by its number; the last: there is none
UNSEEN = (*(Label("unobserved", reason=reason) for reason in UNSEEN_REASONS[1:]), MISSING)
# what holds a GPU that nobody was given, by its number
HOLDER = (
    FREE,
    *(Label("orphaned", reason=reason, tier="certain") for reason in HOLDERS[1:4]),
    ALLOCATION_UNKNOWN,
    UNEXPLAINED_WORK,
)
# of jobs and of services: waiting for requests is a service's nature
STALL_TIERS = ("probable", "potential")
SPINNING = tuple(Label("stalled", kind="spinning", tier=tier) for tier in STALL_TIERS)
WITHIN = tuple(Label("stalled", kind="within", tier=tier) for tier in STALL_TIERS)
GAPS = tuple(Label("stalled", kind="gap", tier=tier) for tier in STALL_TIERS)
CERTAINTIES = ("probable", "certain")
# by context, then by certainty
IDLE = tuple(
    Label("idle", kind=kind, tier=certainty) for kind in CONTEXT_KINDS for certainty in CERTAINTIES
)
INTERACTIVE = tuple(Label("idle", kind="interactive", tier=certainty) for certainty in CERTAINTIES)

FIXED = (
    *UNSEEN,
    SILENT,
    *HOLDER,
    USEFUL,
    UNDERUSED,
    STARTING,
    *SPINNING,
    *WITHIN,
    *GAPS,
    *IDLE,
    *INTERACTIVE,
)
NUMBER = {label: number for number, label in enumerate(FIXED)}


def numbers(labels: Iterable[Label]) -> Kinds:
    """The numbers of fixed labels."""
    return np.array([NUMBER[label] for label in labels], dtype=np.int16)


def with_outages(reasons: Iterable[str]) -> tuple[Label, ...]:
    """All labels by their number: the fixed ones, then one for each reason of unavailability."""
    return (*FIXED, *(Label("unavailable", reason=reason) for reason in reasons))


def named(labels: tuple[Label, ...], kind: int) -> tuple[Label, str, str]:
    """The label, activity signal and efficiency source of a kind."""
    source = (kind & SOURCE_MASK) >> SOURCE_SHIFT
    return labels[kind >> LABEL_SHIFT], SIGNALS[kind & SIGNAL_MASK], EFFICIENCY_SOURCES[source]
