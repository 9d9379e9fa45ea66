"""A GPU's own word on its health, from the fields: each change is one event."""

from dataclasses import dataclass
from typing import List, Optional

from agent.readings import Event
from agent.sources.nvml.fields import Fields

# nvmlDeviceGpuRecoveryAction_t
ACTIONS = (
    "nothing to do",
    "reset the GPU",
    "reboot the node",
    "drain peer-to-peer traffic",
    "drain, then reset the GPU",
    "recover the memory exchange (IMEX)",
    "reset the bus",
    "power-cycle the node",
)
# Rows of memory that were replaced say so in XIDs, which the driver told before this process
# listened: 63 is a row that will be replaced at the next reset, 64 a row that can't be.
XID_ROW_PENDING, XID_ROW_FAILED = 63, 64


@dataclass
class Health:
    """What was told of one GPU last."""

    recovery_action: Optional[int] = None
    rows_pending: bool = False
    rows_failed: bool = False

    def events(self, uuid: str, now_ms: int, fields: Fields) -> List[Event]:
        """What changed since the last call.

        The first answer counts as a change, 0 too: a reset that was done while no agent held the
        GPU ends what it mended.
        """
        events: List[Event] = []
        code = fields.recovery_action
        if code is not None and code != self.recovery_action:
            self.recovery_action = code
            text = ACTIONS[code] if 0 <= code < len(ACTIONS) else "recovery action %d" % code
            events.append(Event(now_ms, "recovery_action", uuid, code, text))
        if fields.rows_failed and not self.rows_failed:
            events.append(
                Event(now_ms, "xid", uuid, XID_ROW_FAILED, "a row of memory could not be replaced")
            )
        if fields.rows_pending and not self.rows_pending:
            events.append(
                Event(
                    now_ms,
                    "xid",
                    uuid,
                    XID_ROW_PENDING,
                    "a row of memory will be replaced at the next reset",
                )
            )
        self.rows_failed = self.rows_failed if fields.rows_failed is None else fields.rows_failed
        self.rows_pending = (
            self.rows_pending if fields.rows_pending is None else fields.rows_pending
        )
        return events
