"""`simulated:SPEC`: a node of GPUs that do not exist, for demos, tests and a first look."""

from agent.sources.simulated.source import Simulated
from agent.sources.simulated.spec import Spec, parse_spec

__all__ = ["Simulated", "Spec", "parse_spec"]
