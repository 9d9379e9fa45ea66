"""dcgm-exporter: readings and holders from its text."""

from agent.sources.dcgm.source import DCGMSource

__all__ = ["DCGMSource"]
