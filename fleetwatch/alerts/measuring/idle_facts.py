"""A job whose GPUs do nothing, as far as conditions measure it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from fleetwatch.alerts.measuring.job_labels import owner_words


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """One idle GPU of the job, over [since_ms, until_ms) in event time: until_ms is where telemetry
    ends.

    `idle_ms` of that it was idle. Dollars are decimal strings; None = no rate, or not read.
    """

    gpu_id: int
    uuid: str
    node: str
    index: int | None
    model: str
    mig_profile: str
    since_ms: int
    until_ms: int
    memory_bytes: float | None
    cost_usd: str | None
    usd_per_hour: str | None
    has_example_rate: bool
    idle_ms: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """A job with at least one GPU idle for longer than the rule allows.

    `job_gpus` is how many it holds in all, `external_id` what ends it alone, `pauses` what it did
    in between, in words ("": it idled all the time).
    """

    job_key: str
    job_name: str
    user: str
    team: str
    cluster: str
    scheduler: str
    external_id: str
    job_gpus: int
    minutes: float
    gpus: tuple[IdleGPU, ...]
    labels: Mapping[str, tuple[str, ...]]
    kind: str = ""
    pids: tuple[int, ...] = ()  # of its processes on these GPUs
    reaches_beyond: bool = False  # its scheduler gave it more than the hub sees
    pauses: str = ""

    @property
    def since_ms(self) -> int:
        """Since when the longest idle GPU is."""
        return min(gpu.since_ms for gpu in self.gpus)

    @property
    def until_ms(self) -> int:
        """Up to when telemetry says so."""
        return max(gpu.until_ms for gpu in self.gpus)

    @property
    def counted_until_ms(self) -> int | None:
        """Until when the dollars of a job of which every GPU idles are counted; None of some of
        them: one of these may work by then, and another one idle.
        """
        return self.until_ms if len(self.gpus) == self.job_gpus else None

    @property
    def nodes(self) -> list[str]:
        return sorted({gpu.node for gpu in self.gpus})

    @property
    def owner(self) -> str:
        """User and team, as far as they are known; "" when neither is."""
        return owner_words(self.user, self.team)

    @property
    def memory_bytes(self) -> float | None:
        """Memory held on all of them; None when one was not read."""
        amounts = [gpu.memory_bytes for gpu in self.gpus]
        return None if None in amounts else sum(amount for amount in amounts if amount is not None)
