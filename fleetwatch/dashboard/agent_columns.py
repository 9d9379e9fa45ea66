"""Columns of the list of agents: what is the same of all is said once above them. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.agent_lines import Agent
from fleetwatch.inventory.models import Node


def _told(name: str) -> Callable[[Node], Any]:
    return lambda node: node.agent.get(name)


# column -> what is compared of it, and how it is said of all
COLUMNS: dict[str, tuple[Callable[[Node], Any], Callable[[Any], str]]] = {
    "version": (_told("version"), "version {}".format),
    "driver": (_told("driver"), "driver {}".format),
    "source": (_told("source"), "source {}".format),
    "clock": (lambda node: node.clock_offset_ms, lambda ms: "" if ms else "clocks in sync"),
    "spool": (
        _told("spool_bytes"),
        lambda size: f"{numbers.gigabytes(size)} waiting on disk" if size else "nothing waits",
    ),
    "dropped": (
        _told("dropped_windows"),
        lambda count: f"{count:,} windows lost" if count else "no window lost",
    ),
}


def columns_of(agents: Sequence[Agent]) -> dict[str, list[str]]:
    """`columns`, which differ among several agents or are not known of all, and `alike`, the others
    in words.
    """
    columns = []
    alike = []
    for name, (value_of, in_words) in COLUMNS.items():
        values = {value_of(agent.node) for agent in agents}
        value = next(iter(values), None)
        words = (
            in_words(value) if len(agents) > 1 and len(values) == 1 and value is not None else ""
        )
        if words:
            alike.append(words)
        else:
            columns.append(name)
    return {"columns": columns, "alike": alike}
