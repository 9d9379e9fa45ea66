"""What ends a command: one line on standard error, and an exit status."""

FAILED = 1
BAD_ARGUMENTS = 2
NOT_LOGGED_IN = 3


class CommandError(Exception):
    """The text is a sentence for who typed the command."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
