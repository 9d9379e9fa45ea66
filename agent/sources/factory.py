"""Which source a name means."""

from pathlib import Path
from typing import Callable, List, Tuple

from agent.reading import Source, SourceError
from agent.sources.nvidia_smi import NvidiaSMI
from agent.sources.nvml import NVMLSource
from agent.sources.replay import ReplaySource
from agent.sources.simulated import Simulated

AUTOMATIC = (NVMLSource, NvidiaSMI)


def open_source(name: str, *, node: str, start_ms: int) -> Source:
    """The source that config.SOURCES names. Raises SourceError when nothing can be read, ValueError for a bad simulation."""
    if name.startswith("simulated:"):
        return Simulated(name.partition(":")[2], node=node, start_ms=start_ms)
    if name.startswith("replay:"):
        return ReplaySource(Path(name.partition(":")[2]), node=node, start_ms=start_ms)
    if name == "nvml":
        return NVMLSource()
    if name == "nvidia-smi":
        return NvidiaSMI()
    return _first_that_opens(AUTOMATIC)


def _first_that_opens(candidates: Tuple[Callable[[], Source], ...]) -> Source:
    reasons: List[str] = []
    for candidate in candidates:
        try:
            return candidate()
        except SourceError as error:
            reasons.append(str(error))
    raise SourceError("; ".join(reasons))
