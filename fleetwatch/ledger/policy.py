"""Every threshold of the ledger, in one versioned value; and the words that entries are made of.

Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fleetwatch.lib.refusal import RefusedFieldError

# The order of legends, tables and the API everywhere.
STATES = (
    "useful",
    "underused",
    "stalled",
    "idle",
    "starting",
    "orphaned",
    "free",
    "unavailable",
    "unobserved",
)
# As people see them: what is only utilisation stands apart from what is useful, what services wait
# apart from what is wasted.
SHOWN_STATES = (
    "useful", "unverified", "underused", "stalled", "waiting", "idle", "starting", "orphaned",
    "free", "unavailable", "unobserved",
)  # fmt: skip
PARTS = {"unverified": "useful", "waiting": "stalled"}  # of which state each is a part
TIERS = ("certain", "probable", "potential")
KINDS = ("gap", "within", "spinning", "cold", "held", "interactive")
CONDITIONS = ("quiet", "spinning", "active", "free", "orphaned", "unavailable", "unobserved")
JOB_KINDS = ("batch", "interactive", "service")
# What runs say of themselves (state_sums.py), in pairs: ms in which each was read, and the sum of
# value x ms.
FIGURES = (
    "active_ms", "active_sum", "power_w_ms", "power_w_sum", "memory_used_bytes_ms",
    "memory_used_bytes_sum", "spin_unresolved_ms", "spin_unresolved_sum",
)  # fmt: skip

MIB = 1024 * 1024


def _threshold(default: float, unit: str, reason: str) -> Any:
    return field(default=default, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True, slots=True)
class Policy:
    """All thresholds by which GPU time is judged (docs/ledger.md); the defaults are version 1."""

    idle_batch_s: float = _threshold(
        900, "s", "an unbroken quiet run of a batch job this long is idle"
    )
    idle_interactive_s: float = _threshold(
        1800, "s", "people think between cells; longer is a forgotten session"
    )
    idle_service_s: float = _threshold(3600, "s", "waiting for requests is a service's nature")
    grace_batch_s: float = _threshold(900, "s", "loading data and a model before the first kernel")
    grace_interactive_s: float = _threshold(600, "s", "a notebook's start")
    grace_service_s: float = _threshold(1800, "s", "pulling an image and loading weights")

    observed_min_ratio: float = _threshold(
        0.5, "ratio", "a window observed less than this says nothing of itself"
    )
    quiet_max: float = _threshold(
        0.02,
        "ratio",
        "activity maximum up to which a window is quiet: monitoring itself draws this much",
    )
    blip_max: float = _threshold(
        0.02, "ratio", "active fraction up to which a window continues a quiet run"
    )
    blip_row_s: float = _threshold(
        900,
        "s",
        "blips in a row without a quiet window for longer are light work, not a run's noise",
    )
    bridge_windows: float = _threshold(
        3, "windows", "missing or under-observed windows in a row that do not end a run"
    )
    active_full: float = _threshold(
        0.90,
        "ratio",
        "an active fraction from here counts as 1: step boundaries of healthy work are no stall",
    )

    contradiction_power_ratio: float = _threshold(
        0.3, "ratio", "a resident context draws up to 0.1 of the range above idle; more is work"
    )
    contradiction_codec_ratio: float = _threshold(
        0.02, "ratio", "an engine for video, JPEG or optical flow at work"
    )
    contradiction_link_bytes_s: float = _threshold(
        50 * MIB, "bytes/s", "PCIe or NVLink above what an idle context causes"
    )

    work_limit_ratio: float = _threshold(
        0.6, "ratio", "of the power limit: no board that rests draws it (a bare L40S: 0.41)"
    )

    phantom_memory_bytes: float = _threshold(
        300 * MIB, "bytes", "less than any CUDA context with a model; reserved memory excluded"
    )

    empty_memory_bytes: float = _threshold(
        16 * MIB, "bytes", "less than any context: what the driver itself has mapped"
    )

    spin_util_min: float = _threshold(
        0.95, "ratio", "busy-waiting shows as a kernel that is always resident"
    )
    spin_power_max: float = _threshold(
        0.20, "ratio", "and draws hardly more than an idle context (NCCL wait: about 70 W more)"
    )
    spin_limit_ratio: float = _threshold(
        0.25,
        "ratio",
        "of the power limit, below which it is near idle where idle power is not known",
    )
    spin_tensor_max: float = _threshold(0.005, "ratio", "without tensor work, where read")
    spin_dram_max: float = _threshold(0.02, "ratio", "and without memory traffic, where read")
    spin_resolvable_s: float = _threshold(
        10, "s", "a longer window can't tell spinning from work by its means"
    )

    ceiling_sm: float = _threshold(0.85, "ratio", "practical ceiling of SM activity")
    ceiling_tensor: float = _threshold(
        0.35, "ratio", "Llama-3 class training reaches 38 to 43 % of peak"
    )
    ceiling_dram: float = _threshold(
        0.75, "ratio", "practical peak of memory bandwidth is about 80 %"
    )
    ceiling_fp64: float = _threshold(0.60, "ratio", "practical ceiling of FP64 work")
    ceiling_power: float = _threshold(0.65, "ratio", "power ratio of well-fed work")
    power_floor: float = _threshold(0.05, "ratio", "active work is never credited with less")
    power_min_working: float = _threshold(
        0.3, "ratio", "below this working fraction power says nothing of efficiency"
    )
    rest_extra_w: float = _threshold(40, "W", "a resident context adds 26 to 66 W over bare idle")
    rest_extra_ratio: float = _threshold(0.2, "ratio", "of the range above idle, on small boards")
    energy_max_ratio: float = _threshold(
        1.3,
        "ratio",
        "joules above this multiple of the power limit are a counter's reset, not energy",
    )

    revival_s: float = _threshold(
        300, "s", "this much unbroken activity ends unavailability: it evidently works"
    )

    def idle_ms(self, kind: str) -> int:
        """T_idle of a job kind in ms; an unknown kind is judged as batch."""
        return self._limit_ms("idle", kind)

    def grace_ms(self, kind: str) -> int:
        """The starting grace of a job kind in ms; an unknown kind is judged as batch."""
        return self._limit_ms("grace", kind)

    def _limit_ms(self, limit: str, kind: str) -> int:
        named = kind if kind in JOB_KINDS else "batch"
        limit_s: float = getattr(self, f"{limit}_{named}_s")
        return round(1000 * limit_s)

    @property
    def reach_ms(self) -> int:
        """How far in time a window can change the judgement of another, in ms.

        A run is idle by T_idle of it, whatever lies beyond; one hop further decides
        whether the last bit belongs to it; windows are up to 300 s long.
        """
        idle_ms = max(self.idle_ms(kind) for kind in JOB_KINDS)
        bridge_ms = round((self.bridge_windows + 1) * LONGEST_WINDOW_MS)
        return idle_ms + round(1000 * self.blip_row_s) + bridge_ms

    def to_json(self) -> dict[str, float]:
        """Field name -> value, as a Policy row keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, thresholds: Mapping[str, float]) -> "Policy":
        """The policy of a row. Raises RefusedFieldError for a field that no policy has, or a value
        that is no number.

        A field the row does not name has its default: it was added later, with the value that held
        before.
        """
        names = {threshold.name for threshold in fields(cls)}
        for name, value in thresholds.items():
            if name not in names:
                raise RefusedFieldError(f"a policy has no threshold {name!r}")
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value < float("inf")
            ):
                raise RefusedFieldError(f"{name}: expected a number not below 0, not {value!r}")
        return cls(**thresholds)


LONGEST_WINDOW_MS = 300_000  # docs/wire.md: window_s is 1 to 300
