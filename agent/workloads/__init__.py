"""Who holds the GPUs: from a process to its job."""

from agent.workloads.resolver import Resolver

__all__ = ["Resolver"]
