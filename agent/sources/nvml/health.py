"""A GPU's own word on its health, from the fields: each change is one event."""

from typing import List

from agent.readings import Event, Values

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
ROWS = (
    ("rows_failed", 64, "a row of memory could not be replaced"),
    ("rows_pending", 63, "a row of memory will be replaced at the next reset"),
)


class Health:
    """What one GPU said of itself, and what of that was told last."""

    def __init__(self) -> None:
        self._before: Values = {}

    def events(self, uuid: str, now_ms: int, values: Values) -> List[Event]:
        """What changed in the fields since the last call.

        The first answer counts as a change, 0 too: a reset that was done while no agent held the
        GPU ends what it mended.
        """
        events: List[Event] = []
        action = values.get("recovery_action")
        if action is not None and action != self._before.get("recovery_action"):
            code = int(action)
            text = ACTIONS[code] if 0 <= code < len(ACTIONS) else "recovery action %d" % code
            events.append(Event(now_ms, "recovery_action", uuid, code, text))
        events += [
            Event(now_ms, "xid", uuid, code, text)
            for key, code, text in ROWS
            if values.get(key) and not self._before.get(key)
        ]
        self._before.update(values)
        return events
