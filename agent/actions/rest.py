"""Since when each GPU rests, by the windows that this agent itself closed: the last word on whether
a job is ended. What was not read does not rest.
"""

from typing import Dict, NamedTuple, Optional

from agent.batch import ClosedWindow
from agent.readings import Workload
from agent.window import GPUWindow

# a GPU with more of it did something; as the ledger has it
ACTIVE_ABOVE = 0.02
# a window of which less was read says nothing of the rest of it
LEAST_OBSERVED = 0.8
# any of them says so; where none was read nobody knows
SIGNALS = ("util_max", "sm_active_max", "sm_active", "gr_engine_active")
# what is work though utilisation hardly shows it, and what is noise of it; as the ledger has both
ENGINES = ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio")
ENGINE_ABOVE = 0.02
LINKS = ("pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s")
LINK_ABOVE = 50 * 1024**2
WORKS_ABOVE = {
    **dict.fromkeys(SIGNALS, ACTIVE_ABOVE),
    **dict.fromkeys(ENGINES, ENGINE_ABOVE),
    **dict.fromkeys(LINKS, LINK_ABOVE),
}
FRESH_MS = 30_000  # what was read longer ago says nothing of now


class Rest(NamedTuple):
    """Since when the GPU was read without a gap and did nothing, and up to when."""

    since_ms: int
    until_ms: int


class Rests:
    """What the closed windows say; not for several threads."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._rests: Dict[str, Rest] = {}
        self.workload: Optional[Workload] = None  # of the newest window

    def note(self, closed: ClosedWindow) -> None:
        """One more window, in their order."""
        rests: Dict[str, Rest] = {}
        for window in closed.windows:
            if self._rests_in(window):
                rests[window.uuid] = self._longer(window)
        self._rests = rests
        self.workload = closed.workload

    def rested_ms(self, uuid: str, now_ms: int) -> int:
        """For how long the GPU did nothing up to now; 0 where that is not known."""
        rest = self._rests.get(uuid)
        if rest is None or now_ms - rest.until_ms > FRESH_MS:
            return 0
        return rest.until_ms - rest.since_ms

    def _longer(self, window: GPUWindow) -> Rest:
        last = self._rests.get(window.uuid)
        goes_on = last is not None and last.until_ms == window.start_ms
        since_ms = last.since_ms if last is not None and goes_on else window.start_ms
        return Rest(since_ms, window.start_ms + self._window_ms)

    def _rests_in(self, window: GPUWindow) -> bool:
        is_read = window.observed_ms >= LEAST_OBSERVED * self._window_ms
        is_read = is_read and any(name in window.columns for name in SIGNALS)
        return is_read and not works(window)


def works(window: GPUWindow) -> bool:
    """Whether the GPU was seen to do something in it."""
    return any(window.columns.get(name, 0) > above for name, above in WORKS_ABOVE.items())
