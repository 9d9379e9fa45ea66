"""What all failures have in common that end a command with one line and status 1."""


class AgentError(Exception):
    """The text says what failed and why, for the operator."""
