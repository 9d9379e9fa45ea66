"""What all failures have in common that end a command with one line and status 1."""


class AgentError(Exception):
    """The text says what failed and why, for the operator."""


class BadArgumentError(ValueError):
    """What the operator asked for can't be done as he wrote it; the text says what was expected.

    Ends with status 2.
    """


class ConfigError(BadArgumentError):
    """A wrong value; the text names it and says what was expected."""
