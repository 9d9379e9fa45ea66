"""A file that a command was given by name."""

import sys
from pathlib import Path


def read_input(name: str, *, max_bytes: int) -> bytes:
    """The file's bytes, of "-" those of standard input: at most one more than max_bytes, so that
    too many are seen. Raises OSError.
    """
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as source:
        return source.read(max_bytes + 1)
