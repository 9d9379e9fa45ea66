"""Calls that somebody who waits for an answer does not wait for to the end."""

import threading
from collections.abc import Callable


def aside(call: Callable[[], None], *, within_s: float) -> bool:
    """Whether the call ended within so many seconds; else it goes on, on a thread of its own.

    It asks nothing of the database, and handles its own errors.
    """
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(within_s)
    return not thread.is_alive()
