"""The FleetWatch agent: reads GPUs, attributes them to jobs, and streams windows to the hub.

Standard library and nvidia-ml-py only; Python >= 3.8; ships alone.
"""

__version__ = "1.0.0"
