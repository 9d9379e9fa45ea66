"""The agent's door: before anything else is loaded, what is seldom used is put off."""

import sys
from importlib import import_module

from agent import deferred


def main() -> int:
    """The exit status (agent.dispatch)."""
    deferred.defer()
    status: int = import_module("agent.dispatch").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
