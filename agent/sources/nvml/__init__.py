"""The driver's own library: the only import of pynvml, and the only place that sees a milliwatt.

What can't be read is None, with a reason that is kept for an hour per GPU and metric; a GPU that is
lost stops nobody else. Facts about the calls: nvml.h and the notes beside them.
"""

from agent.sources.nvml.source import NVMLSource

__all__ = ["NVMLSource"]
