"""A job whose GPUs do nothing, as far as conditions measure it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.alerts.measuring.job_labels import owner_words


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """One idle GPU of the job, over [since_ms, until_ms) in event time: until_ms is where telemetry
    ends.

    `idle_ms` of that it was idle, in so many `spells`, the last since `spell_since_ms`. Dollars are
    decimal strings; None = no rate, or not read.
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
    spells: int = 1
    spell_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """A job with at least one GPU idle for longer than the rule allows.

    `job_gpus` is how many it holds in all, `external_id` what ends it alone.
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

    @property
    def since_ms(self) -> int:
        """Since when the longest idle GPU is."""
        return min(gpu.since_ms for gpu in self.gpus)

    @property
    def until_ms(self) -> int:
        """Up to when telemetry says so."""
        return max(gpu.until_ms for gpu in self.gpus)

    @property
    def counted_until_ms(self) -> int:
        """Until when dollars are counted: nodes are posted one after the other, so by what an hour
        of each GPU costs.
        """
        per_hour = [Decimal(gpu.usd_per_hour or 0) for gpu in self.gpus]
        whole = sum(per_hour)
        if not whole:
            return self.until_ms
        ends = (usd * gpu.until_ms for usd, gpu in zip(per_hour, self.gpus, strict=True))
        return round(sum(ends) / whole)

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
