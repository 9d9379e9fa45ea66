"""What a node's newest batch told of its agent, for people. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.lib.intervals import to_ms

# agent.readings.GPUInfo.unread, in words; a reason that a newer agent gives is shown as it is
REASONS = {
    "not_supported": "this GPU or its driver does not tell it",
    "no_permission": "the agent may not ask: it needs the rights of its systemd unit, or root",
    "operating_system": "the operating system refuses it",
    "error": "the driver answers with an error",
    "off": "switched off in the agent's settings",
}


@dataclass(frozen=True, slots=True)
class Unread:
    """Metrics that can't be read of the same GPUs for the same reason; `gpus` is "all" or their
    indices.
    """

    why: str
    metrics: list[str]
    gpus: str


def lag_ms(received_at: datetime | None, last_ms: int | None) -> int | None:
    """How long the newest window had been over when it came: small, unless a queue is being worked
    off. None: never heard.
    """
    if received_at is None or last_ms is None:
        return None
    return max(0, to_ms(received_at) - last_ms)


def unread_of(gpus: Iterable[tuple[str, Mapping[str, str]]]) -> list[Unread]:
    """The refusals of a node, from each GPU's name and unread metrics; the ones that concern most
    metrics first.
    """
    named = list(gpus)
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (reason, metric), names in _refused(named).items():
        gpu_names = "all" if len(names) == len(named) else ", ".join(names)
        alike[reason, gpu_names].append(metric)
    rows = [
        Unread(REASONS.get(reason, reason.replace("_", " ")), sorted(metrics), gpu_names)
        for (reason, gpu_names), metrics in alike.items()
    ]
    return sorted(rows, key=lambda row: (-len(row.metrics), row.why, row.gpus))


def _refused(named: Iterable[tuple[str, Mapping[str, str]]]) -> dict[tuple[str, str], list[str]]:
    """The names of GPUs by the reason and the metric that can't be read of them."""
    refused: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, unread in named:
        for metric, reason in unread.items():
            refused[reason, metric].append(name)
    return refused
