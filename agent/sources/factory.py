"""Which source a name means.

Each module is loaded only when its source is chosen: the others would cost memory.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, List

from agent.readings import DriverChangedError, Source, SourceError

AUTOMATIC = ("nvml", "nvidia-smi")
_CLASSES = {
    "nvml": ("agent.sources.nvml", "NVMLSource"),
    "nvidia-smi": ("agent.sources.nvidia_smi", "NvidiaSMI"),
    "dcgm": ("agent.sources.dcgm", "DCGMSource"),
    "simulated": ("agent.sources.simulated", "Simulated"),
    "replay": ("agent.sources.recorded_logs", "ReplaySource"),
}


def open_source(
    name: str, *, node: str, start_ms: int, cluster: str = "default", gpm: bool = True
) -> Source:
    """The source that config.SOURCES names.

    Raises SourceError when nothing can be read, BadArgumentError for a bad simulation.
    """
    if name.startswith("dcgm="):
        return _made("dcgm", name.partition("=")[2], cluster=cluster, now_ms=start_ms)
    kind, _, rest = name.partition(":")
    if kind == "simulated":
        return _made(kind, rest, node=node, start_ms=start_ms)
    if kind == "replay":
        return _made(kind, Path(rest), node=node, start_ms=start_ms)
    return _first_that_opens(gpm) if name == "auto" else _driver(name, gpm)


def _driver(name: str, gpm: bool) -> Source:
    return _made(name, gpm=gpm) if name == "nvml" else _made(name)


def _made(kind: str, *arguments: Any, **options: Any) -> Source:
    module, name = _CLASSES[kind]
    source: Source = getattr(import_module(module), name)(*arguments, **options)
    return source


def _first_that_opens(gpm: bool) -> Source:
    """Raises SourceError with every reason."""
    reasons: List[str] = []
    for kind in AUTOMATIC:
        try:
            return _driver(kind, gpm)
        except DriverChangedError:
            raise  # a new process reads NVML again: no reason to fall back
        except SourceError as error:
            reasons.append(str(error))
    raise SourceError("; ".join(reasons))
