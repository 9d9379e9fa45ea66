"""How far back a node may reach for GPUs that it had not named before: what nobody could see at the
time is no capacity later.

An agent whose hub is away keeps its windows, so what comes late is believed from the GPU's first
window at its node on. Before that a batch is believed for REACH_MS after its last window, for an
agent that was installed while its hub could not be reached. A recorded log that is older is an
import: of a token that may, or of one that an admin made for a node that has told nothing newer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress

import structlog

from agent.wire import Batch
from fleetwatch.ingest.models import AgentToken, Enrollment
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry.services import ClockBounds

REACH_MS = 7 * 86_400_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reached:
    """The batch without the windows that reach too far back; `refused`: UUID -> why, of GPUs that
    have such windows.
    """

    batch: Batch
    refused: Mapping[str, str]

    @property
    def is_void(self) -> bool:
        """Whether nothing of it is left: then nothing is stored, its identity neither, so that a
        token that may import can send it.
        """
        return bool(self.refused) and self.batch.end_ms is None


def within_reach(
    batch: Batch, token: AgentToken, *, clock: ClockBounds | None, received_at: datetime
) -> Reached:
    """What of the batch this token may say by now; `clock` is how much the agent's is off."""
    received_ms = to_ms(received_at)
    offset_ms = 0 if clock is None else clock.certain_ms
    oldest_ms = received_ms - REACH_MS - offset_ms  # by the agent's clock
    if batch.end_ms is None or batch.end_ms > oldest_ms or _may_tell_history(token, received_ms):
        return Reached(batch, {})
    is_kept = _are_of_life(batch, token.node_id, offset_ms)
    return Reached(batch, {}) if all(is_kept) else _without(batch, is_kept)


def _without(batch: Batch, is_kept: Sequence[bool]) -> Reached:
    """The batch with the windows that are kept alone."""
    places = {place for place, kept in zip(batch.windows["gpu"], is_kept, strict=True) if not kept}
    log.warning(
        "windows from before their GPUs were known left out",
        node=batch.node,
        gpus=len(places),
        windows=is_kept.count(False),
    )
    why = _why(batch.node)
    columns = {name: list(compress(column, is_kept)) for name, column in batch.windows.items()}
    return Reached(
        replace(batch, windows=columns), {batch.gpus[place]["uuid"]: why for place in places}
    )


def _may_tell_history(token: AgentToken, received_ms: int) -> bool:
    """Whether the token may import, or an admin made it for a node that has told nothing newer than
    what is out of reach.
    """
    if token.may_import:
        return True
    last_ms = token.node.last_ms
    if last_ms is not None and last_ms > received_ms - REACH_MS:
        return False
    return not Enrollment.objects.filter(agent_token=token).exists()


def _are_of_life(batch: Batch, node_id: int, offset_ms: int) -> list[bool]:
    """Of each window whether it starts no earlier than the GPU's first at the node."""
    first_ms = _first_windows(batch, node_id)
    windows = zip(batch.windows["gpu"], batch.windows["start_ms"], strict=True)
    return [
        (first := first_ms[place]) is not None and start_ms + offset_ms >= first
        for place, start_ms in windows
    ]


def _first_windows(batch: Batch, node_id: int) -> list[int | None]:
    """By position the first window of the GPU, and of the one that it is a part of, at the node;
    None = there is none.
    """
    uuids = {gpu[name] for gpu in batch.gpus for name in ("uuid", "parent_uuid") if gpu.get(name)}
    first_ms_of = dict(
        GPU.objects.filter(node_id=node_id, uuid__in=uuids).values_list("uuid", "first_ms")
    )
    firsts: list[int | None] = []
    for gpu in batch.gpus:
        own = first_ms_of.get(gpu["uuid"])
        whole = first_ms_of.get(gpu["parent_uuid"]) if gpu.get("parent_uuid") else own
        firsts.append(None if own is None or whole is None else max(own, whole))
    return firsts


def _why(node: str) -> str:
    return (
        f"windows of more than {REACH_MS // 86_400_000} days ago, from before this GPU's first one"
        " here, need a token that may import: Settings, Agents, or manage.py create_agent_token"
        f" --import {node}"
    )
