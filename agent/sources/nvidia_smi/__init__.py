"""nvidia-smi: readings from the program's own output, where there is no NVML for Python."""

from agent.sources.nvidia_smi.source import NvidiaSMI

__all__ = ["NvidiaSMI"]
