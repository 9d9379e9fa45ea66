"""What is known of a job that is idle: kept with its incident, said in its messages. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """One idle GPU of the job, over [since_ms, until_ms) in event time: until_ms is where telemetry
    ends.

    Dollars are decimal strings; None = no rate, or not read.
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


@dataclass(frozen=True, slots=True)
class Facts:
    """A job with at least one GPU idle for longer than the rule allows.

    `job_gpus` is how many it holds in all, `external_id` what ends it alone.
    """

    job_key: str
    job_name: str
    user: str
    team: str
    scheduler: str
    external_id: str
    job_gpus: int
    threshold_minutes: float
    gpus: tuple[IdleGPU, ...]
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
    def nodes(self) -> list[str]:
        return sorted({gpu.node for gpu in self.gpus})

    @property
    def owner(self) -> str:
        """User and team, as far as they are known; "" when neither is."""
        return f"{self.user} ({self.team})" if self.user and self.team else self.user or self.team

    @property
    def cost_usd(self) -> Decimal | None:
        """What the idle time cost so far; None when a GPU has no rate."""
        return _sum([gpu.cost_usd for gpu in self.gpus])

    @property
    def usd_per_hour(self) -> Decimal | None:
        """What the idle GPUs cost per hour; None when one has no rate."""
        return _sum([gpu.usd_per_hour for gpu in self.gpus])

    @property
    def has_example_rates(self) -> bool:
        return any(gpu.has_example_rate for gpu in self.gpus)

    @property
    def memory_bytes(self) -> float | None:
        """Memory held on all of them; None when one was not read."""
        amounts = [gpu.memory_bytes for gpu in self.gpus]
        return None if None in amounts else sum(amount for amount in amounts if amount is not None)

    def to_json(self) -> dict[str, Any]:
        """The facts as plain data, for the Incident row."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Facts":
        """The facts that `to_json` gave."""
        parts = {
            "gpus": tuple(IdleGPU(**gpu) for gpu in data["gpus"]),
            "pids": tuple(data.get("pids", ())),
        }
        return cls(**(dict(data) | parts))


def _sum(amounts: list[str | None]) -> Decimal | None:
    known = [Decimal(amount) for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None
