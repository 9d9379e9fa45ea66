"""The agent's door: before anything else is loaded, what is seldom used is put off."""

import sys
from importlib import import_module

from agent import deferred

if __name__ == "__main__":
    deferred.defer()
    sys.exit(import_module("agent.command_line").main())
